// The sentences about the desktop shell itself, in the window's three languages.
import { language, type Lang } from "./index.svelte";

const WORDS = {
  en: {
    failed: "MetaClaw did not start.",
    stopped: "The service is stopped.",
    start: "Start",
    stop_ask: "Agents get no answer until it runs again.",
    no_tray: "This desktop shows no tray icons. MetaClaw goes on when you close this window; start it again to see it.",
    no_tray_how: "On GNOME the extension “AppIndicator and KStatusNotifierItem Support” shows them.",
    fine: "Understood",
    saved: "Saved as {path}",
    not_saved: "The file was not written: {reason}",
  },
  "zh-CN": {
    failed: "MetaClaw 没有启动。",
    stopped: "服务已停止。",
    start: "启动",
    stop_ask: "再次启动之前，智能体得不到回答。",
    no_tray: "这个桌面不显示托盘图标。关闭窗口后 MetaClaw 继续运行；再次启动即可看到它。",
    no_tray_how: "在 GNOME 上，扩展“AppIndicator and KStatusNotifierItem Support”可以显示图标。",
    fine: "知道了",
    saved: "已存为 {path}",
    not_saved: "文件没有写入：{reason}",
  },
  ja: {
    failed: "MetaClaw を起動できませんでした。",
    stopped: "サービスは停止しています。",
    start: "開始",
    stop_ask: "もう一度動かすまで、エージェントは応答を受け取れません。",
    no_tray: "このデスクトップにはトレイアイコンが表示されません。ウィンドウを閉じても MetaClaw は動き続け、もう一度起動すると表示されます。",
    no_tray_how: "GNOME では拡張機能「AppIndicator and KStatusNotifierItem Support」で表示できます。",
    fine: "わかりました",
    saved: "{path} に保存しました",
    not_saved: "ファイルを書けませんでした：{reason}",
  },
} satisfies Record<Lang, Record<string, string>>;

export const shellWord = (key: keyof (typeof WORDS)["en"]): string => WORDS[language.current][key];
