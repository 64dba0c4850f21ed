"""What `budget` says."""

from __future__ import annotations

BUDGETS: dict[str, tuple[str, str]] = {
    "help.budget": (
        (
            "Set and show budgets: card-hours or money that may be used in a period.\n"
            "A node is / (the organisation), TENANT, TENANT/PROJECT, TENANT/PROJECT/USER, or TENANT/*/USER over all "
            "projects. A job starts if it stays within every budget above it: what is used, what running jobs may "
            "still use, and what it asks for."
        ),
        (
            "设置和查看预算：一个周期内可用的卡时或金额。\n节点可写为 /（整个组织）、租户、租户/项目、租户/项目/用户，"
            "或 租户/*/用户（跨全部项目）。作业须在其上的每个预算之内才会启动：已用量、运行中作业还可能使用的量，"
            "加上它申请的量。"
        ),
    ),
    "help.budget.list": ("Show budgets and how they stand.", "查看预算及其使用情况。"),
    "help.budget.set": (
        (
            "Set a budget.\n"
            "Example: millpond budget set vision --card-hours 100 --at 80:alert --at 100:queue\n"
            "A tenant's own budget is set by the platform; those of its projects and users by the tenant."
        ),
        (
            "设置预算。\n例如：millpond budget set vision --card-hours 100 --at 80:alert --at 100:queue\n"
            "租户本身的预算由平台设置；其项目和用户的预算由租户设置。"
        ),
    ),
    "help.budget.remove": (
        "Take a budget away, after asking. Jobs that wait for it may start.",
        "确认后移除预算。因该预算而等待的作业可以启动。",
    ),
    "head.limit": ("LIMIT", "上限"),
    "head.running_jobs": ("RUNNING", "运行占用"),
    "head.left": ("LEFT", "剩余"),
    "head.thresholds": ("LINES", "阈值"),
    "head.budget_period": ("PERIOD", "周期"),
    "budget.card_hours": ("The limit in card-hours.", "卡时上限。"),
    "budget.amount": ("The limit in money, net of tax.", "金额上限（不含税）。"),
    "budget.currency": ("Currency of the amount.", "金额的币种。"),
    "budget.period": ("When it begins anew.", "预算重新开始的周期。"),
    "budget.at": (
        "A line: alert, queue, deny or stop at so many per cent. May be repeated.",
        "阈值：达到百分之多少时 alert（告警）、queue（排队）、deny（拒绝）或 stop（停止）。可重复。",
    ),
    "budget.from": ("Of a budget for once: from when on.", "一次性预算的开始时间。"),
    "budget.to": ("Of a budget for once: until when.", "一次性预算的结束时间。"),
    "budget.which": ("Which of several, by its period.", "有多个时按周期指定。"),
    "budget.unit": ("Which of several: card-hours, or a currency.", "有多个时按单位指定：card-hours 或币种。"),
    "budget.hours": ("card-hours", "卡时"),
    "budget.empty": (
        "There are no budgets, so nothing is limited. Set one: millpond budget set --help",
        "没有预算，因此没有限制。设置：millpond budget set --help",
    ),
    "budget.set": ("Budget of {node} set.", "已设置 {node} 的预算。"),
    "budget.removed": ("Budget of {node} removed.", "已移除 {node} 的预算。"),
    "budget.none": ("{node} has no budget", "{node} 没有预算"),
    "budget.look": ("millpond budget list shows those that stand", "millpond budget list 列出现有预算"),
    "budget.several": ("{node} has several budgets", "{node} 有多个预算"),
    "budget.narrow": ("add --period or --unit, or give the id of one", "请加 --period 或 --unit，或给出预算 id"),
    "budget.ask": ("Remove the budget of {node}: {limit} {unit}?", "移除 {node} 的预算（{limit} {unit}）？"),
    "word.alert": ("alert", "告警"),
    "word.queue": ("queue", "排队"),
    "word.deny": ("deny", "拒绝"),
    "word.stop": ("stop", "停止"),
    "word.month": ("month", "每月"),
    "word.quarter": ("quarter", "每季度"),
    "word.year": ("year", "每年"),
    "word.once": ("once", "一次性"),
}
