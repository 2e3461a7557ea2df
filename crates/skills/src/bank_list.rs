bank! {
    "code-review"
}
