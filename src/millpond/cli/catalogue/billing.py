"""What `rate` says about bills."""

from __future__ import annotations

BILLING: dict[str, tuple[str, str]] = {
    "head.alarm": ("ALARM", "告警"),
    "head.amount": ("AMOUNT", "金额"),
    "head.price_version": ("PRICE", "价格版本"),
    "field.account": ("Account", "账户"),
    "field.lost_work": ("Lost work", "损失卡时"),
    "field.net": ("Net", "不含税"),
    "field.period": ("Period", "账期"),
    "field.tax": ("Tax", "税额"),
    "field.total": ("Total", "合计"),
    "rate.alarms": (
        "Alarms: {count}. Facts contradict each other, and what they are about is not billed.",
        "告警：{count} 个。事实相互矛盾，相关用量不计费。",
    ),
    "rate.no_lines": ("Nothing to bill in this period.", "本账期没有可计费的用量。"),
    "rate.rows_hidden": ("Only {count} rows are shown; --json prints all.", "只显示 {count} 行；--json 可全部输出。"),
    "rate.unrated": (
        "Lines without a price: {count}. They are not free: the invoice waits until they are priced.",
        "无价格的用量：{count} 条。这不是免费：定价之前账单不能开具。",
    ),
}
