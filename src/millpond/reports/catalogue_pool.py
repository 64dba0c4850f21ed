"""Texts of the reports about the pool and its policy: key → (English, Chinese)."""

from __future__ import annotations

REASONS: dict[str, tuple[str, str]] = {
    "completed": ("done", "完成"),
    "failed": ("failed by itself", "作业失败"),
    "preempted": ("made room for others", "被抢占"),
    "reclaimed": ("gave borrowed cards back", "归还借用的卡"),
    "moved": ("moved to other cards", "迁移"),
    "node_lost": ("its node was lost", "节点失联"),
    "card_fault": ("a card failed", "卡故障"),
    "start_failed": ("could not be started", "启动失败"),
    "cancelled": ("stopped by its owner", "用户取消"),
    "max_duration": ("reached its longest duration", "达到最长时限"),
    "lost_lease": ("lost its lease", "失去租约"),
    "saved": ("saved and left", "保存后退出"),
    "unpaid": ("stopped because money or budget ended", "余额或预算用尽"),
}

POOL_WORDS: dict[str, tuple[str, str]] = {
    "yes": ("yes", "是"),
    "no": ("no", "否"),
    "off": ("off", "关闭"),
    "no_limit": ("none", "不限"),
    "real.real": ("real", "真实"),
    "real.simulated": ("simulated", "模拟"),
    "card.ok": ("ok", "正常"),
    "card.quarantined": ("quarantined", "隔离"),
    "card.lost": ("lost", "失联"),
    "card.draining": ("draining", "排空中"),
    "card.cordoned": ("cordoned", "停用"),
    "order.fifo": ("strictly in order", "严格先来后到"),
    "order.traverse": ("in order; who fits may pass who does not", "按序，放得下的可先行"),
    "tco.depreciation": ("Server, less what it is worth at the end", "服务器（扣除残值）"),
    "tco.power": ("Energy", "电费"),
    "tco.running": ("Room, staff, network", "机房、人员与网络"),
    "rule.order": (
        "Jobs wait in order of claim (guaranteed, deserved, borrowed), then of the smallest share, then of time.",
        "等待的作业先按权利（保障优先于应得，再到借用），再按占用份额从小到大，最后按提交时间排序。",
    ),
    "rule.guarantee": (
        "A queue's guarantee is its own: what others use of it is given back when it is asked for.",
        "队列的保障额度归其所有：他人借用的部分在需要时归还。",
    ),
    "rule.borrow": (
        "Beyond what it deserves a queue borrows what is free, up to its limit, from queues that lend.",
        "超出应得部分，队列可在上限内向可借出的队列借用空闲卡。",
    ),
    "rule.reclaim": (
        "Who makes room is chosen by the least work lost; borrowed cards go first.",
        "让出者按损失最小选择，借用的卡先归还。",
    ),
    "rule.save": (
        "A job that has to leave is told, has its grace to save, and is queued again; lost work is not billed.",
        "须让出的作业先收到通知，在宽限期内保存进度并重新排队；损失的卡时不计费。",
    ),
    "rule.fit": (
        "All cards of a job start together or none does; a job is put where it leaves the least fragments.",
        "作业的全部卡同时启动，否则都不启动；放置时尽量减少碎片。",
    ),
    "rule.explain": (
        "Every job that waits has a reason with numbers: millpond why JOB.",
        "每个等待的作业都有带数字的原因：millpond why 作业。",
    ),
    "setting.min_runtime": (
        "seconds that a job runs before it may be asked to leave",
        "作业可被要求让出前的最短运行秒数",
    ),
    "setting.cooldown": ("seconds between two evictions of the same job", "同一作业两次让出之间的秒数"),
    "setting.hold_timeout": (
        "seconds for which freed cards are kept for whom they were freed",
        "为申请者保留腾出卡的秒数",
    ),
    "setting.lost_work_cap": ("seconds of lost work beyond which it counts no more", "损失工作量计入的上限秒数"),
    "setting.consolidate_after": ("seconds after which jobs may be moved to make room", "允许迁移以腾出空间的等待秒数"),
    "setting.assumed_limit": ("seconds that a job without a limit is taken to run", "未设时限的作业按此秒数估计"),
    "setting.reserve_after": ("seconds of waiting after which cards are kept for a job", "等待超过此秒数后为其预留"),
    "setting.regroup_after": ("seconds after which scattered jobs may be moved together", "允许归并分散作业的秒数"),
    "setting.hold_back": ("jobs that may be held back for a better place", "可为更好位置暂缓的作业数"),
    "setting.hold_back_for": ("longest that a job is held back, seconds", "暂缓的最长秒数"),
}
