"""What `usage` says."""

from __future__ import annotations

USAGE: dict[str, tuple[str, str]] = {
    "help.usage_of": (
        (
            "Show card-hours used, and what of them was lost.\n"
            "Members see their own.  The same sums make invoices: all use of the hours that a month carries.\n"
            "Example: millpond usage --by user --month 2026-11"
        ),
        (
            "查看卡时用量及其中的损失。\n"
            "成员只看到自己的用量。账单由同样的数据汇总：账期内各小时的全部用量。\n"
            "例如：millpond usage --by user --month 2026-11"
        ),
    ),
    "usage.by": ("What is summed by; sku is the card model.", "汇总维度；sku 为卡型号。"),
    "usage.month": ("Such as 2026-11; else the one that is not over yet.", "例如 2026-11；默认为当月。"),
    "usage.from": ("A date or full hour, instead of a month.", "起始日期或整点（含），代替月份。"),
    "usage.to": ("First date or hour that is left out; else until now.", "截止日期或整点（不含）；默认到现在。"),
    "usage.zone": (
        "IANA zone of months and days; else the account's, or UTC.",
        "月份和日期所用时区；默认为账户时区或 UTC。",
    ),
    "usage.attempts": ("The attempts of one job.", "查看某作业各次运行的用量。"),
    "usage.alarms": ("What the meter could not believe and did not bill.", "查看计量发现的矛盾（不计费）。"),
    "usage.csv": ("All sums as CSV.", "以 CSV 输出全部汇总。"),
    "usage.period": ("{start} to {end} ({zone})", "{start} 至 {end}（{zone}）"),
    "usage.total": ("all", "合计"),
    "usage.empty": (
        (
            "No card time was used: {period}. Start a job: millpond run --gpu 1 -- COMMAND; "
            "or look at another month: --month YYYY-MM"
        ),
        "此期间没有卡时用量：{period}。运行作业：millpond run --gpu 1 -- COMMAND；或查看其他月份：--month YYYY-MM",
    ),
    "usage.not_yet": (
        "Nothing is counted yet: {period}. The meter runs with the server and counts once a minute; try again then.",
        "尚未开始计量：{period}。计量随服务器运行，每分钟一次；请稍后再试。",
    ),
    "usage.lost_note": (
        "Lost card time is not billed, unless the account bills lost work.",
        "损失的卡时不计费，除非账户设置为计费。",
    ),
    "usage.counted": ("Running jobs are counted until {time}", "运行中的作业已计量至 {time}"),
    "usage.alarms_found": (
        "The meter found {count} contradictions in this time, and did not bill them: millpond usage --alarms",
        "计量在此期间发现 {count} 处矛盾，均不计费：millpond usage --alarms",
    ),
    "usage.no_alarms": ("The meter found no contradictions in this time.", "此期间没有发现矛盾。"),
    "usage.no_attempts": (
        "{job} has not started yet, and has used nothing. What it waits for: millpond why {job}",
        "{job} 尚未启动，没有用量。查看等待原因：millpond why {job}",
    ),
    "usage.disputed": (
        "An attempt overlaps with another one on a card: nothing of it is billed. See millpond usage --alarms",
        "有运行与其他作业在同一张卡上重叠：不计费。见 millpond usage --alarms",
    ),
    "usage.whole_job": (
        "--attempts shows all of a job; leave out --month, --from and --to",
        "--attempts 显示作业的全部运行；请去掉 --month、--from 和 --to",
    ),
    "usage.one_of": ("choose one of {names}", "{names} 只能选一个"),
    "head.attempts": ("ATTEMPTS", "运行次数"),
    "head.code": ("CODE", "代码"),
    "head.day": ("DAY", "日期"),
    "head.measured": ("MEASURED", "实测利用率"),
    "field.card_hours": ("Card-hours", "卡时"),
    "field.job": ("Job", "作业"),
    "field.lost_hours": ("Of them lost", "其中损失"),
}
