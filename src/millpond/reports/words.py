"""What reports say, in English and Chinese."""

from __future__ import annotations

WORDS: dict[str, tuple[str, str]] = {
    "title": ("What if: {count} runs in virtual time", "假设推演：{count} 个方案"),
    "title_one": ("A run in virtual time", "虚拟时间推演"),
    "pool": ("{cards} cards, {time} of virtual time", "{cards} 卡，虚拟时间 {time}"),
    "unchanged": ("as the file says", "按文件原样"),
    "stopped": ("stopped early, at {time}", "提前停止于 {time}"),
    "baseline": ("baseline", "现状"),
    "difference": ("difference", "差异"),
    "runs": ("Runs", "方案"),
    "tenants": ("Tenants", "租户"),
    "run": ("run", "方案"),
    "tenant": ("tenant", "租户"),
    "changes": ("changes", "修改"),
    "utilisation": ("cards in use", "卡利用率"),
    "fragmentation": ("fragmented", "碎片"),
    "finished": ("jobs done", "完成作业"),
    "waiting": ("still waiting", "仍在等待"),
    "evicted": ("evictions", "让出次数"),
    "lost_hours": ("card-hours lost", "损失卡时"),
    "wait_mean": ("wait, mean", "平均等待"),
    "wait_p50": ("wait, P50", "等待 P50"),
    "wait_p95": ("wait, P95", "等待 P95"),
    "wait_max": ("wait, longest", "最长等待"),
    "plot_used": ("Cards in use over time", "卡利用率随时间变化"),
    "say_used": ("Percent of all cards that the run's pool has.", "占该方案全部卡的百分比。"),
    "plot_waiting": ("Jobs waiting over time", "等待作业数随时间变化"),
    "say_waiting": ("Jobs in the queues, on average in each interval.", "每个时段内排队作业的平均数。"),
    "plot_stranded": ("Fragmentation over time", "碎片随时间变化"),
    "say_stranded": (
        "Percent of the pool that is free, but that the usual job of this workload cannot use (FGD's measure).",
        "空闲但本负载的常见作业无法使用的卡，占全池的百分比（FGD 指标）。",
    ),
    "plot_evictions": ("Evictions over time", "让出次数随时间变化"),
    "say_evictions": ("Counted from the beginning.", "从起点累计。"),
    "plot_waits": ("Wait by tenant", "各租户的等待时间"),
    "say_waits": (
        "From submission to the first start: P50 in full colour, up to P95 in pale. Jobs still waiting count so far.",
        "从提交到首次启动：深色为 P50，浅色至 P95。仍在等待的作业按已等待时间计。",
    ),
    "say_some": ("The {count} tenants with the most jobs.", "作业最多的 {count} 个租户。"),
    "axis": ("Time in {unit}.", "时间单位：{unit}。"),
    "minutes": ("minutes", "分钟"),
    "hours": ("hours", "小时"),
    "days": ("days", "天"),
    "seconds": ("seconds", "秒"),
}


class Words:
    """The table in one language."""

    def __init__(self, lang: str) -> None:
        self.lang = "zh" if lang == "zh" else "en"

    def __call__(self, key: str, **values: object) -> str:
        return WORDS[key][self.lang == "zh"].format_map(values)
