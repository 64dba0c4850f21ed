"""Texts of reports and of invoices as files."""

from __future__ import annotations

REPORTS: dict[str, tuple[str, str]] = {
    "help.report": (
        (
            "Reports: usage, metering, waits, burndown, idle, health, inventory, policy, cost of own cards.\n\n"
            "Shown as tables, or written as PDF, XLSX, CSV or JSON lines."
        ),
        "报表：用量、计量、排队、预算、闲置、健康、清单、策略、自建成本。\n\n显示为表格，或输出 PDF、XLSX、CSV。",
    ),
    "help.report.usage": (
        (
            "Card-hours by team, project, user, model, job or day.\n\n"
            "Allocated time and the lost part of it; measured utilisation is blank until something measures it."
        ),
        "按团队、项目、用户、卡型、作业或日期统计卡时。\n\n列出已分配卡时及其中损失部分；未实测的利用率留空。",
    ),
    "help.report.metering": (
        (
            "The metering report of a tenant's month, to be signed.\n\n"
            "Card-hours, attempts, price versions, discount and amount by project and card. Needs a billing account."
        ),
        "租户月度计量报表，供签字确认。\n\n按项目与卡型列出卡时、运行次数、价格版本、折扣与金额。需要计费账户。",
    ),
    "help.report.waits": (
        "Time in queue: P50, P95 and the longest, by queue.\n\nAnd the jobs that wait now, by reason.",
        "排队时间：各队列的 P50、P95 与最长值。\n\n并按原因列出当前排队的作业。",
    ),
    "help.report.burndown": (
        "Budgets: used, held and left, and when they will be used up.\n\nAt the usual rate, and at a high one.",
        "预算：已用、冻结与剩余，以及预计用尽日期。\n\n按日均与高值两种速率估计。",
    ),
    "help.report.idle": (
        (
            "Cards of the month: allocated, idle and down, by model and day.\n\n"
            "Their sum is what is installed; what contradicts itself is listed. Idle time has the list price beside it."
        ),
        "本月算力卡：已分配、空闲与停机，按卡型与日期。\n\n三者之和等于装机卡时；矛盾之处逐条列出，空闲附目录价。",
    ),
    "help.report.health": (
        "Nodes and quarantined cards now, and how attempts of the month ended.",
        "当前节点与隔离卡的状态，以及本月运行的结束原因。",
    ),
    "help.report.inventory": ("Every card, and sums by model.", "全部算力卡及按卡型汇总。"),
    "help.report.policy": (
        "The queue policy in force, as a document.\n\nGuarantees, limits, settings and rules, with a digest.",
        "当前生效的队列策略文档。\n\n列出保障、上限、参数与规则，并附摘要。",
    ),
    "help.report.tco": (
        (
            "Cost of own cards over the years, and when they are cheaper than renting.\n\n"
            "  millpond report tco --server-price 2400000 --power-kw 10.2 --energy 0.65 --yearly 120000 --rental 21.77"
        ),
        (
            "自建算力卡的多年成本，以及何时比租用便宜。\n\n"
            "  millpond report tco --server-price 2400000 --power-kw 10.2 --energy 0.65 --yearly 120000 --rental 21.77"
        ),
    ),
    "help.invoice.export": (
        "Write an issued invoice as PDF, XLSX, CSV, FOCUS 1.2 or JSON lines.",
        "将已开具的账单输出为 PDF、XLSX、CSV、FOCUS 1.2 或 JSON 行。",
    ),
    "invoice.export_format": (
        "How it is written; else what FILE says, or pdf.",
        "输出格式；不写则由文件名决定，默认 pdf。",
    ),
    "invoice.export_output": (
        "Where to; - is the standard output, else NUMBER.FORMAT.",
        "输出文件；- 为标准输出，默认 编号.格式。",
    ),
    "report.by": ("What usage is summed by.", "用量的汇总方式。"),
    "report.cards": ("Cards of the server.", "服务器的卡数。"),
    "report.currency": ("Code of ISO 4217, such as CNY.", "ISO 4217 币种代码，例如 CNY。"),
    "report.empty": ("Nothing in this period.", "本期无记录。"),
    "report.energy": ("Price of a kWh.", "每千瓦时电价。"),
    "report.format": ("Write it as a file instead of showing it.", "输出为文件而不是显示。"),
    "report.hidden": (
        "{count} more rows; --format csv or xlsx has them all.",
        "另有 {count} 行；--format csv 或 xlsx 可得到全部。",
    ),
    "report.month": ("Such as 2026-11; else the one that is not over yet.", "例如 2026-11；默认为当月。"),
    "report.output": (
        "Where to; - is the standard output. The name's end says the format.",
        "输出文件；- 为标准输出，扩展名决定格式。",
    ),
    "report.power_kw": ("Power that the server draws, kW.", "服务器功率（kW）。"),
    "report.pue": ("What the building draws for each watt of the server.", "机房 PUE。"),
    "report.rental": ("Price of a rented card-hour, to compare with.", "用于比较的卡时租价。"),
    "report.residual": ("Part of its price that the server is worth at the end.", "期末残值比例。"),
    "report.server_price": ("Price of the server.", "服务器价格。"),
    "report.written": ("Written: {path} ({size} bytes)", "已写入：{path}（{size} 字节）"),
    "report.yearly": ("Room, staff and network, a year.", "每年的机房、人员与网络费用。"),
    "report.years": ("Years of use.", "使用年数。"),
    "report.zone": ("IANA zone of the month; else the account's, or UTC.", "月份所用时区；默认为账户时区或 UTC。"),
}
