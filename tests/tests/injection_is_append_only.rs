//! What goes to the provider only ever grows at its end: whenever an agent's request begins with the bytes of its last one,
//! so does what the provider gets. Provider prompt caches live on that.

use metaclaw_tests::agent::{Agent, Chat, blocks};
use metaclaw_tests::answer::{Answer, Api};
use metaclaw_tests::product::{Product, QUESTION};
use metaclaw_tests::provider::{Provider, Reply};
use rstest::rstest;
use serde_json::json;

/// The bytes of a request up to the end of its last message.
fn head(body: &str) -> &str {
    let end = body.rfind("],\"max_tokens\"").or_else(|| body.rfind("]}")).expect("a list of messages at the end");
    &body[..end]
}

/// Sends the conversation and checks that both sides grew alike.
async fn grows(chat: Chat, agent: &Agent, provider: &Provider, before: &mut Option<(String, String)>) -> Chat {
    let sent = chat.body(false).to_string();
    let chat = chat.send(agent).await;
    let got = provider.last().text().to_owned();
    if let Some((client, upstream)) = before {
        assert!(sent.starts_with(head(client)), "the test's own client does not grow at the end");
        let common = got.bytes().zip(upstream.bytes()).take_while(|(a, b)| a == b).count();
        assert!(
            got.starts_with(head(upstream)),
            "the provider's request changed before its end, at byte {common}:\n{upstream}\n{got}"
        );
    }
    *before = Some((sent, got));
    chat
}

#[rstest]
#[tokio::test]
async fn over_a_conversation_with_tools_and_a_restart(
    #[values(Api::Chat, Api::Responses, Api::Messages)] api: Api,
    #[values(false, true)] killed: bool,
) {
    let provider = Provider::start().await;
    let mut product = Product::at(&provider, &json!({"llm": {"dialect": api.config()}}));
    product.teach();
    product.start().await;
    let agent = product.agent();
    let mut before = None;

    let chat = Chat::new(api).user(QUESTION);
    provider.next(Reply::Answer(Answer::calls(&[("look_up", r#"{"q":"zebrafish"}"#)])));
    let chat = grows(chat, &agent, &provider, &mut before).await;
    assert_eq!(blocks(provider.last().text()), 1, "{}", provider.last().text());
    let chat = grows(chat.tool_result("call_look_up_0", "28 degrees"), &agent, &provider, &mut before).await;
    let chat = grows(chat.user("thanks"), &agent, &provider, &mut before).await;
    assert_eq!(blocks(provider.last().text()), 1, "a word of thanks got a block");

    if killed {
        product.kill().await;
        product.start().await;
    }
    // The skill is another one by now; what was added once stays as it was.
    product.write_skill("zebrafish-care", "Keeping zebrafish in an aquarium, water, larvae and feeding.", "Changed.");
    let chat =
        grows(chat.user("And zebrafish feeding at night, in the aquarium?"), &agent, &provider, &mut before).await;
    assert_eq!(blocks(provider.last().text()), 2);
    let chat = grows(chat.user(QUESTION), &agent, &provider, &mut before).await;
    grows(chat.user("ok"), &agent, &provider, &mut before).await;
    assert_eq!(blocks(provider.last().text()), 3);
}

/// Agents send the same words twice; each place keeps its own block.
#[tokio::test]
async fn the_same_question_twice_keeps_two_places() {
    let provider = Provider::start().await;
    let product = Product::at(&provider, &json!({}));
    product.teach();
    let mut product = product;
    product.start().await;
    let (agent, mut before) = (product.agent(), None);
    let mut chat = Chat::new(Api::Chat);
    for _ in 0..4 {
        chat = grows(chat.user(QUESTION), &agent, &provider, &mut before).await;
    }
}

/// Claude Code moves its cache mark to the newest message and may write old content as text where it was a list.
#[tokio::test]
async fn a_moved_cache_mark_does_not_lose_the_block() {
    let provider = Provider::start().await;
    let mut product = Product::at(&provider, &json!({"llm": {"dialect": "anthropic-messages"}}));
    product.teach();
    product.start().await;
    let agent = product.agent();
    let marked = |text: &str| json!({"role": "user", "content": [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]});
    let first = Chat::new(Api::Messages).item(marked(QUESTION)).send(&agent).await;
    let block_of = |body: &str| {
        let start = body.find("<metaclaw-context>").expect("a block");
        body[start..body.find("</metaclaw-context>").expect("its end")].to_owned()
    };
    let block = block_of(provider.last().text());
    let answer = first.body(false)["messages"][1].clone();
    let unmarked = json!({"role": "user", "content": [{"type": "text", "text": QUESTION}]});
    let second = Chat::new(Api::Messages).item(unmarked).item(answer.clone()).item(marked("go on")).send(&agent).await;
    assert_eq!(block_of(provider.last().text()), block);
    assert_eq!(blocks(provider.last().text()), 1);
    let answer2 = second.body(false)["messages"][3].clone();
    let plain = json!({"role": "user", "content": QUESTION});
    Chat::new(Api::Messages)
        .item(plain)
        .item(answer)
        .user("go on")
        .item(answer2)
        .item(marked("thanks"))
        .send(&agent)
        .await;
    assert_eq!(block_of(provider.last().text()), block);
    assert_eq!(blocks(provider.last().text()), 1);
}
