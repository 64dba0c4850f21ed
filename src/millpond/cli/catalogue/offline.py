"""Texts of `plan`, `simulate` and `snapshot convert`."""

from __future__ import annotations

OFFLINE: dict[str, tuple[str, str]] = {
    "simulate.until": (
        "How far to go: 24h, 7d (default: 24h for a snapshot, all of a trace).",
        "推演多久：24h、7d（默认：快照 24h，负载记录为全部）。",
    ),
    "simulate.set": (
        "Change the file first: queues.factor/batch.cap=48, settings.cooldown=30s, nodes.n1.lost=true (repeatable).",
        "先修改文件：queues.factor/batch.cap=48、settings.cooldown=30s、nodes.n1.lost=true（可重复）。",
    ),
    "simulate.add_nodes": (
        "N more nodes, like NODE or like the last one (repeatable).",
        "增加 N 个节点，与 NODE 或最后一个节点相同（可重复）。",
    ),
    "simulate.case": (
        "Compare with the file so changed; changes as for --set, commas between them (repeatable).",
        "与如此修改后的结果对比；修改写法同 --set，以逗号分隔（可重复）。",
    ),
    "simulate.parallel": (
        "At most so many runs at a time (default: one a processor).",
        "最多同时运行多少个方案（默认每个处理器一个）。",
    ),
    "simulate.report": ("Write a page with plots and tables.", "输出带图表的网页报告。"),
    "trace.format": ("What FILE is; shown by its header otherwise.", "FILE 的格式；缺省由文件头判断。"),
    "trace.pool": (
        "Nodes and queues for a trace: a snapshot file, a list of nodes, or 8x8xA800-80GB.",
        "负载记录所用的节点和队列：快照文件、节点列表，或 8x8xA800-80GB。",
    ),
    "trace.queue": ("For jobs whose tenant has no queue in the pool.", "租户在池中没有队列的作业进入此队列。"),
    "trace.speed": ("Jobs of a trace arrive X times as fast.", "负载记录中的作业以 X 倍速到达。"),
    "trace.limit": ("Only the first N jobs of a trace.", "只取负载记录的前 N 个作业。"),
    "trace.checkpoint_every": (
        "Jobs of a trace save their work so often: 30m (default: never).",
        "负载记录中的作业多久保存一次：30m（默认不保存）。",
    ),
    "simulate.check": ("Judge every plan by the independent checker, too.", "每次调度都用独立校验器复核。"),
    "simulate.events_hidden": (
        "{count} events are not shown; --json prints them.",
        "未显示 {count} 个事件；--json 可全部输出。",
    ),
    "simulate.violations": (
        "{run}: the checker objects to {count} decisions; please report this with the file.",
        "{run}：校验器对 {count} 项决定提出异议；请连同文件反馈。",
    ),
    "trace.until": ("Where to end, counted from the beginning: 7d.", "到何时为止，从起点算起：7d。"),
    "trace.from": (
        "Where to begin in a trace: 2d after its first job, or a time.",
        "从负载记录的何处开始：首个作业之后 2d，或某个时刻。",
    ),
    "head.run": ("RUN", "方案"),
    "head.utilisation": ("USED", "利用率"),
    "head.fragmentation": ("FRAG", "碎片"),
    "head.lost_hours": ("LOST-H", "损失卡时"),
    "head.wait_mean": ("WAIT-MEAN", "平均等待"),
    "head.wait_p95": ("WAIT-P95", "等待 P95"),
    "head.action": ("ACTION", "动作"),
    "head.after": ("AFTER", "时刻"),
    "head.detail": ("DETAIL", "说明"),
    "head.evicted": ("EVICTED", "被让出"),
    "head.finished": ("ENDED", "结束"),
    "head.starts": ("STARTED", "启动"),
    "head.wait_p50": ("WAIT-P50", "等待中位"),
    "head.wait_max": ("WAIT-MAX", "最长等待"),
    "plan.nothing": ("Nothing to do: no job waits.", "无事可做：没有作业在等待。"),
    "plan.evict": ("{why} for {claimant}, loses {lost} card-seconds", "{why}，为 {claimant} 让出，损失 {lost} 卡秒"),
    "plan.reshape": ("{node}[{card}] into {slices}", "{node}[{card}] 切分为 {slices}"),
    "plan.reserve": ("{seats} from +{time} on", "{seats}，自 +{time} 起"),
    "plan.hold": ("{seats} until +{until}", "{seats}，保留至 +{until}"),
    "plan.warning": ("warning: {text}", "警告：{text}"),
    "simulate.baseline": ("baseline", "现状"),
    "simulate.difference": ("change", "差异"),
    "simulate.derived": (
        "No --pool: the trace runs on {cards} cards (nodes: {nodes}), at most 80 % of which its work would fill.",
        "未给 --pool：在 {nodes} 个节点、{cards} 卡上推演，负载至多占 80 %。",
    ),
    "simulate.skipped": (
        "Left out of the trace, as they {why}: {count}.",
        "略去负载记录中的 {count} 项：{why}。",
    ),
    "simulate.stopped": (
        "Stopped at +{time}; the figures are of the time up to then.",
        "在 +{time} 停止；以上为截至该时刻的结果。",
    ),
    "simulate.stopped_run": ("{run}: stopped at +{time}.", "{run}：在 +{time} 停止。"),
    "simulate.not_run": ("{count} runs had not begun.", "{count} 个方案尚未开始。"),
    "simulate.report_written": ("Report written to {path}", "报告已写入 {path}"),
    "snapshot.converted": (
        "{jobs} jobs, {nodes} nodes, {queues} queues written to {path}; try: millpond simulate {path}",
        "已写入 {path}：{jobs} 个作业、{nodes} 个节点、{queues} 个队列；可试：millpond simulate {path}",
    ),
    "simulate.nothing": (
        "No jobs to simulate: a snapshot holds those that wait or run now, a trace those to come.",
        "没有可推演的作业：快照只含此刻等待或运行的作业，负载记录才有后续作业。",
    ),
    "simulate.resumed": ("{seats}, resumes with {saved} of work done", "{seats}，从已完成的 {saved} 处继续"),
    "simulate.requeue": ("back in the queue with {saved} of work kept", "回到队列，保留 {saved} 的进度"),
    "simulate.summary": (
        "{percent} % of the cards in use over {time}; {evictions} evictions, {lost} card-seconds lost",
        "{time} 内卡利用率 {percent} %；让出 {evictions} 次，损失 {lost} 卡秒",
    ),
}
