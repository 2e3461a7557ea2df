//! A full disk does not cost what was remembered before, keeps nobody from being answered, and memory goes on afterwards.

use metaclaw_tests::agent::{Chat, hello};
use metaclaw_tests::answer::Api;
use metaclaw_tests::product::{Product, health};
use metaclaw_tests::provider::{Provider, Reply};
use serde_json::json;

#[tokio::test]
async fn memory_outlives_a_full_disk() {
    let provider = Provider::start().await;
    provider.script(|_| Some(Reply::text("Fine.")));
    let settings = json!({"memory": {"enabled": true}, "skills": {"enabled": false}});
    let mut product = Product::at(&provider, &settings);
    let home = product.home();
    let script = format!(
        "cp '{0}/config.yaml' '{1}/saved.yaml' && mount -t tmpfs -o size=12m tmpfs '{0}' && cp '{1}/saved.yaml' '{0}/config.yaml' && exec \"$@\"",
        home.display(),
        product.folder().display()
    );
    if !product.spawn_in_mounts(&script).await {
        return;
    }
    product.healthy().await.expect("it starts");
    let inside = std::path::PathBuf::from(format!("/proc/{}/root{}", product.pid(), home.display()));
    let agent = product.agent();
    Chat::new(Api::Chat).user("The spare key hangs behind the blue vase.").send(&agent).await;
    let filler = inside.join("filler");
    let mut file = std::fs::File::create(&filler).expect("a file on the small disk");
    for block in [1 << 20, 4096, 512, 1] {
        while std::io::Write::write_all(&mut file, &vec![7; block]).is_ok() {}
    }
    drop(file);
    for n in 0..6 {
        let words = format!("The barrel number {n} holds {}", "cider and perry ".repeat(3000));
        let got = agent.ask(Api::Chat, &hello(Api::Chat, &words, false)).await;
        assert!(matches!(got.status(), 200 | 500 | 503 | 507), "{}", got.text());
    }
    let question = hello(Api::Chat, "Where did I hang the spare key?", false);
    let got = agent.ask(Api::Chat, &question).await;
    if got.status() == 200 {
        assert!(provider.last().text().contains("behind the blue vase"), "{}", provider.last().text());
    }
    assert!(health(&product.addr()).await, "it died: {}", product.output("err"));
    std::fs::remove_file(&filler).expect("room again");
    Chat::new(Api::Chat).user("The ladder leans against the pear tree.").send(&agent).await;
    for (question, fact) in
        [("Where did I hang the spare key?", "behind the blue vase"), ("Where does the ladder lean?", "pear tree")]
    {
        Chat::new(Api::Chat).user(question).send(&agent).await;
        assert!(provider.last().text().contains(fact), "{}", provider.last().text());
    }
}
