"""Why jobs wait, in sentences, and the command to try next.  The English is used where the server sends none."""

from __future__ import annotations

REASONS: dict[str, tuple[str, str]] = {
    "reason.QUEUE_CAP": (
        "queue {queue} may use {limit} cards and uses {have}; this job needs {need}",
        "队列 {queue} 上限 {limit} 卡，已用 {have}；本作业需要 {need}",
    ),
    "reason.TENANT_CAP": (
        "{queue} may use {limit} cards and uses {have}; this job needs {need}",
        "{queue} 上限 {limit} 卡，已用 {have}；本作业需要 {need}",
    ),
    "reason.CARD_HOURS_EXHAUSTED": (
        "this job needs {need} card-hours; {have} are left",
        "本作业需要 {need} 卡时，只剩 {have}",
    ),
    "reason.BALANCE_HELD": (
        "this job needs {need}; {have} is free of holds",
        "本作业需要 {need}，未冻结的余额只有 {have}",
    ),
    "reason.NO_SUCH_CARD": ("no node has such a card", "没有节点有这样的卡"),
    "reason.TOO_LARGE": ("no node of the pool is large enough", "池中没有足够大的节点"),
    "reason.INSUFFICIENT_CARDS": (
        "this job needs {need} cards; {have} are free for it",
        "本作业需要 {need} 卡，可用的只有 {have}",
    ),
    "reason.FRAGMENTED": (
        "{free} cards are free, but the best node has only {have} of the {need} needed",
        "共有 {free} 卡空闲，但最好的节点只有 {have}，需要 {need}",
    ),
    "reason.INSUFFICIENT_CPU": (
        "this job needs {need} CPUs; the best node has {have} free",
        "本作业需要 {need} CPU，最好的节点空闲 {have}",
    ),
    "reason.INSUFFICIENT_MEMORY": (
        "this job needs {need} of memory; the best node has {have} free",
        "本作业需要内存 {need}，最好的节点空闲 {have}",
    ),
    "reason.TOPOLOGY": ("no free cards satisfy the topology", "没有满足拓扑要求的空闲卡"),
    "reason.BEHIND": ("it stands behind {jobs}", "排在 {jobs} 之后"),
    "reason.RESERVED_FOR": ("the cards are kept for {jobs}", "卡已为 {jobs} 保留"),
    "reason.PREEMPTING": ("{jobs} make room for it until {until}", "{jobs} 正在为它让出，最迟 {until}"),
    "reason.NEEDS_GUARANTEE": (
        "it may not be evicted, so it needs {need} cards of the guarantee; {have} of {limit} are taken",
        "它不可被抢占，因此需要 {need} 卡的保障额度；{limit} 中已用 {have}",
    ),
    "reason.DEPENDENCY": ("it starts after {jobs}", "在 {jobs} 之后启动"),
    "reason.START_TIME": ("it may start from {until}", "最早 {until} 启动"),
    "reason.HELD": ("it is held by its owner", "被所有者暂扣"),
    "reason.BACKOFF": ("it is tried again at {until}", "将于 {until} 重试"),
    "reason.CORDONED": ("only cordoned nodes would fit", "只有停用的节点才放得下"),
    "reason.DRAINING": ("the nodes that would fit are draining", "放得下的节点正在排空"),
    "reason.ENGINE_REFUSED": (
        "the engine, or the scheduler's own check, refused to start it",
        "引擎或调度器自检拒绝启动",
    ),
    "reason.HELD_BACK": (
        "it fits, but would waste cards; it waits until {until} at the latest for a better place",
        "放得下，但会浪费卡；为等待更合适的位置暂缓，最迟到 {until}",
    ),
}

ADVICE: dict[str, tuple[str, str]] = {
    "try.default": ("millpond queue {queue}", "millpond queue {queue}"),
    "try.NO_SUCH_CARD": ("millpond cards", "millpond cards"),
    "try.TOO_LARGE": ("millpond nodes", "millpond nodes"),
    "try.INSUFFICIENT_CPU": ("millpond nodes", "millpond nodes"),
    "try.INSUFFICIENT_MEMORY": ("millpond nodes", "millpond nodes"),
    "try.TOPOLOGY": ("millpond nodes", "millpond nodes"),
    "try.FRAGMENTED": ("millpond nodes", "millpond nodes"),
    "try.CORDONED": ("millpond nodes", "millpond nodes"),
    "try.DRAINING": ("millpond nodes", "millpond nodes"),
    "try.HELD": ("millpond release {job}", "millpond release {job}"),
    "try.PREEMPTING": ("millpond wait --for started {job}", "millpond wait --for started {job}"),
    "try.HELD_BACK": ("millpond wait --for started {job}", "millpond wait --for started {job}"),
    "try.BACKOFF": ("millpond logs {job}", "millpond logs {job}"),
    "try.START_TIME": ("millpond wait --for started {job}", "millpond wait --for started {job}"),
    "try.DEPENDENCY": ("millpond describe {job}", "millpond describe {job}"),
    "try.ENGINE_REFUSED": ("millpond describe {job}", "millpond describe {job}"),
    "try.NEEDS_GUARANTEE": ("millpond quota show", "millpond quota show"),
    "try.CARD_HOURS_EXHAUSTED": ("millpond quota show", "millpond quota show"),
}
