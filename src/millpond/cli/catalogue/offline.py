"""Texts of `plan` and `simulate`."""

from __future__ import annotations

OFFLINE: dict[str, tuple[str, str]] = {
    "option.until": ("How far to go: 24h, 7d (default 24h).", "推演多久：24h、7d（默认 24h）。"),
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
    "plan.hold": ("{seats} until +{until}", "{seats}，保留至 +{until}"),
    "plan.warning": ("warning: {text}", "警告：{text}"),
    "simulate.progress": ("t={time}, {events} events", "t={time}，{events} 个事件"),
    "simulate.resumed": ("{seats}, resumes with {saved} of work done", "{seats}，从已完成的 {saved} 处继续"),
    "simulate.requeue": ("back in the queue with {saved} of work kept", "回到队列，保留 {saved} 的进度"),
    "simulate.summary": (
        "{percent} % of the cards in use over {time}; {evictions} evictions, {lost} card-seconds lost",
        "{time} 内卡利用率 {percent} %；让出 {evictions} 次，损失 {lost} 卡秒",
    ),
}
