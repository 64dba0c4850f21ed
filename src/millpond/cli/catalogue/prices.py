"""What `price` says."""

from __future__ import annotations

PRICES: dict[str, tuple[str, str]] = {
    "help.price": (
        (
            "List and add prices of a card-hour.\n"
            "Versions are only added: what was billed never changes. What was agreed with a tenant goes before list "
            "prices, and a version that names more before one that names less."
        ),
        "查看和添加每卡时价格。\n价格版本只增不改：已出账的金额永不变化。合同价优先于目录价，限定更具体的版本优先。",
    ),
    "help.price.list": (
        "List price versions.\n--tenant: list prices and what was agreed with this tenant.",
        "列出价格版本。\n--tenant：目录价及与该租户约定的价格。",
    ),
    "help.price.add": (
        (
            "Add a price version.\n"
            "Example: millpond price add v2 --sku A800-80GB --class prod --price 10.50 --currency CNY "
            "--from 2026-12-01 --zone Asia/Shanghai"
        ),
        (
            "添加价格版本。\n"
            "例如：millpond price add v2 --sku A800-80GB --class prod --price 10.50 --currency CNY "
            "--from 2026-12-01 --zone Asia/Shanghai"
        ),
    ),
    "help.price.import": (
        (
            "Add every version of a file, or none.\n"
            "Its keys: currency, zone, tenant (for a contract), prices: a list of version, sku, class, price, from, to."
        ),
        (
            "导入文件中的全部价格版本，要么全部成功，要么全部不变。\n文件的键：currency、zone、tenant（合同价）、"
            "prices（version、sku、class、price、from、to 的列表）。"
        ),
    ),
    "head.sku": ("MODEL", "卡型号"),
    "head.currency": ("CURRENCY", "币种"),
    "head.from_time": ("FROM", "生效"),
    "head.to_time": ("TO", "失效"),
    "head.agreed": ("CONTRACT", "合同租户"),
    "price.sku": ("Card model; * means every one.", "卡型号；* 表示全部。"),
    "price.class": ("Class of the queue; * means every one.", "队列类别；* 表示全部。"),
    "price.amount": ("Of a card-hour, such as 12.00.", "每卡时价格，例如 12.00。"),
    "price.currency": ("Code of ISO 4217, such as CNY.", "ISO 4217 币种代码，例如 CNY。"),
    "price.from": ("A date, or a full hour.", "日期或整点时间。"),
    "price.to": ("When it ends; else when the next one begins.", "失效时间；不写则到下一版本生效为止。"),
    "price.zone": ("Zone whose dates are meant.", "日期所在时区。"),
    "price.contract": ("Only for this tenant.", "仅对该租户有效的合同价。"),
    "price.empty": (
        "There are no prices yet. Add one: millpond price add --help",
        "尚无价格。添加：millpond price add --help",
    ),
    "price.added": ("Versions added: {count}.", "已添加价格版本：{count} 个。"),
}
