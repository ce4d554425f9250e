package manifest

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// body is the content of a Secret, or of a document meant as one, beside its type.
const body = `
metadata: {name: pass, namespace: prod, labels: {app: web}, annotations: {note: text}, creationTimestamp: "2020-01-01T00:00:00Z"}
data: {user: YWRtaW4=, tls.crt: YQ==}
stringData: {password: text, config.json: "{}"}
immutable: true
type: kubernetes.io/tls
spec: {containers: [{name: main, env: [{name: PASSWORD, value: x}]}]}
items: [{kind: Secret, stringData: {a: b}}]
`

// secretTypes are the beginnings and ends of documents that are Secrets or may be some, in YAML and in JSON.
var secretTypes = []struct{ yamlHead, yamlTail, jsonHead, jsonTail string }{
	{"apiVersion: v1\nkind: Secret\n", "", `"apiVersion": "v1", "kind": "Secret", `, ""},
	{"apiVersion: v1\nkind: SecretList\n", "", `"apiVersion": "v1", "kind": "SecretList", `, ""},
	{"apiVersion: v1\nkind: secret\n", "", `"apiVersion": "v1", "kind": "secret", `, ""},
	{"apiVersion: v1\nkind: # of what\n  Secret\n", "", `"apiVersion": "v1", "kind": "Secre\u0074", `, ""},
	{"apiVersion: v1\nkind: \"\\x53ecret\"\n", "", `"apiVersion": "v1", "Kind": "Secret", `, ""},
	{"apiVersion: v1\nkind: [Secret]\n", "", `"apiVersion": "v1", "kind": ["Secret"], `, ""},
	{"kind: Secret\n", "", `"kind": "Secret", `, ""},
	{"apiVersion: v1\n", "", `"apiVersion": "v1", `, ""},
	{"", "", "", ""},
	{"apiVersion: external-secrets.io/v1\nkind: ExternalSecret\n", "", `"apiVersion": "v2", "kind": "Secret", `, ""},
	{"apiVersion: v1\nkind: Secret\n", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n", `"apiVersion": "v1", "kind": "Secret", `, `, "kind": "Pod"`},
	{"apiVersion: v1\nkind: ConfigMap\n", "kind: Secret\n", `"apiVersion": "v1", "kind": "ConfigMap", `, `, "kind": "Secret"`},
}

// plantedYAML are ways in which a secret gets into the place of a value, and some of a key; where it becomes a key,
// it isn't one that a Secret's data can have: such a one is shown.
var plantedYAML = []string{
	"pass=hunter2", `"hunter2 "`, "*hunter2", "!hunter2 x", "!!int hunter2!", "!!float hunter2!", "!!timestamp hunter2!", "!!binary hunter2!",
	"x # hunter2", "'hunter2", "[hunter2!", "[hunter2!, hunter2!]", "{hunter2!: hunter2!}", "{hunter2!: 1, hunter2!: 2}", "? hunter2!", "@hunter2",
	"%hunter2", "hunter2: x: hunter2", "\thunter2!", `"\hunter2"`, "{<<: hunter2!}", "../hunter2", "hunter2é", "*x hunter2", "|hunter2", "- hunter2!",
	"user: hunter2", "{a: {hunter2: 1, hunter2: 2}}", "{a: {b: {hunter2: [hunter2]}}}", "&hunter2 {a: *hunter2}", "{? [hunter2] : x}", "<hunter2>",
	"x\n---\nkind: hunter2", "{user: [hunter2!]}",
}

// plantedJSON are the same of JSON.
var plantedJSON = []string{
	`"pass=hunter2"`, `hunter2!`, `"hunter2`, `["hunter2!"]`, `{"hunter2!": "hunter2"}`, `{"hunter2!": 1, "hunter2!": 2}`, `"\hunter2"`, `'hunter2!'`,
	`1hunter2!`, `{"a": {"hunter2": 1, "hunter2": 2}}`, `{"a": {"b": ["hunter2"]}}`, "hunter2!: hunter2", `"../hunter2"`,
}

// TestSecretsAreNeverReported plants a random word in every place of a document that is, or may be, a Secret, in a random
// way, and looks for it in all findings.
func TestSecretsAreNeverReported(t *testing.T) {
	findings := 0
	rapid.Check(t, func(r *rapid.T) {
		token := rapid.StringMatching(`[a-z]{6}[A-Z0-9]{6}`).Draw(r, "token")
		is, asJSON := rapid.SampledFrom(secretTypes).Draw(r, "type"), rapid.Bool().Draw(r, "JSON")
		opts := fileOptions
		opts.Strict = rapid.Bool().Draw(r, "strict")
		if rapid.Bool().Draw(r, "URL") {
			opts.OriginKind, opts.Origin = URLKind, "https://config.example/pods"
		}
		forms := plantedYAML
		if asJSON {
			forms = plantedJSON
		}
		form := strings.ReplaceAll(rapid.SampledFrom(forms).Draw(r, "form"), secret, token)
		for _, text := range marked(t, body, []string{form}, 1, asJSON) {
			if asJSON {
				text = "{" + is.jsonHead + strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}") + is.jsonTail + "}"
				if opts.OriginKind == URLKind {
					text = `{"apiVersion": "v1", "kind": "PodList", "items": [` + text + `]}`
				}
			} else {
				text = is.yamlHead + text + is.yamlTail
			}
			findings += checkTellsNot(r, token, text, opts)
		}
	})
	if findings < 1000 {
		t.Errorf("there were %d findings; the test proves little", findings)
	}
}

// checkTellsNot looks for a token in the findings of a document, read as a whole and by items, and counts them.
func checkTellsNot(t interface{ Fatalf(string, ...any) }, token, text string, opts Options) int {
	origins := []*Origin{Parse([]byte(text), opts)}
	for _, item := range ParseItems([]byte(text), opts, nil) {
		origins = append(origins, item.Origin)
	}
	findings := 0
	for _, o := range origins {
		for _, f := range o.Findings {
			findings++
			if strings.Contains(f.Message+f.Unquoted+f.Field, token) {
				t.Fatalf("finding %+v tells what is in\n%s", f, text)
			}
		}
	}
	return findings
}

// TestDiscreet: findings on a possible Secret describe the problem, but don't quote it.
func TestDiscreet(t *testing.T) {
	const head = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"
	for _, tc := range []struct{ name, text, want string }{
		{"a list", "apiVersion: v1\nkind: SecretList\na: *hunter2\n", "1 error : this isn't valid YAML: unknown anchor '(redacted)' referenced"},
		{"in lower case", "apiVersion: v1\nkind: secret\na: !!int hunter2\n",
			"1 error : this YAML can't be turned into JSON: (redacted)"},
		{"a kind behind a comment", "kind: # x\n  Secret\na: *hunter2\n", "1 error : this isn't valid YAML: unknown anchor '(redacted)' referenced"},
		{"an escaped kind", "apiVersion: v1\nkind: \"\\x53ecret\"\na: 'hunter2\n", "1 error : this isn't valid YAML: near line 3: found unexpected end of stream"},
		{"no kind", "apiVersion: v1\nstringData: {a: *hunter2}\n", "1 error : this isn't valid YAML: unknown anchor '(redacted)' referenced"},
		{"an unknown kind", "apiVersion: v1\nkind: hunter2\n", "1 error kind: kind (redacted) can't run on a node: only v1 Pod, ConfigMap, Secret, PersistentVolumeClaim and PersistentVolume, and storage.k8s.io/v1 CSIDriver documents are read"},
		{"JSON", "{\"kind\": \"Secret\",\n\"a\": hunter2]", "1 error : line 2: this isn't valid JSON: invalid character (redacted) looking for beginning of value"},
		{"the end of JSON", "{\"a\": \"hunter2", "1 error : line 1: this isn't valid JSON: unexpected end of JSON input"},
		{"a key that can't be one", head + "stringData: {'user: hunter2': }\n", "1 error data: one of its members: Invalid value: a valid config key must " +
			"consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"},
		{"a key twice", head + "stringData: {tls.crt: a, tls.crt: b}\n", "1 warning stringData.tls.crt: is set twice, again in line 4: the last one counts"},
		{"a key twice in a value", head + "stringData: {tls.crt: {hunter2: 1, hunter2: 2}}\n",
			"1 warning stringData.tls.crt: one of its members: is set twice, again in line 4: the last one counts"},
		{"no separator", head + "stringData: {'hunter 2': a, 'hunter 2': b}\nkind: Pod\n",
			"1 warning stringData: one of its members: is set twice, again in line 4: the last one counts"},
		{"a key of a field that isn't one", head + "'hunter 2': x\n", "1 warning : one of its members: isn't a field of v1.Secret: it is ignored"},
		{"an annotation that is missing", head + "type: kubernetes.io/service-account-token\n", "1 error metadata.annotations: Required value: " +
			"a Secret of type kubernetes.io/service-account-token has the annotation kubernetes.io/service-account.name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := Parse([]byte(tc.text), fileOptions)
			checkOrigin(t, o)
			if len(o.Findings) == 0 {
				t.Fatal("there is no finding")
			}
			f := o.Findings[0]
			severity := map[Severity]string{Warning: "warning", Error: "error"}[f.Severity]
			if got := fmt.Sprintf("%d %s %s: %s", f.Document, severity, f.Field, f.Message); got != tc.want || f.Unquoted != "" {
				t.Errorf("got %q, and unquoted %q; want %q", got, f.Unquoted, tc.want)
			}
		})
	}
}
