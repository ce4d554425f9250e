package podctl

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// hostile holds what a terminal could obey: a title, a colour by C0 and C1 introducers, a bell, line ends, DEL, a
// bidirectional override, an invisible tag character outside the BMP, and a harmless character to be left alone.
const hostile = "\x1b]0;pwned\a\x1b[31m\u009b31m\r\nnext\tline\x7f\u202etxt\U000e0041ü"

// harmless fails the test if a terminal could obey text.
func harmless(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%s lets %U through:\n%q", what, r, text)
			return
		}
	}
	if !utf8.ValidString(text) {
		t.Errorf("%s isn't UTF-8: %q", what, text)
	}
}

func TestEscapeText(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "",
		"plain ü … 漢字":          "plain ü … 漢字",
		"\x1b[31m":              `\x1b[31m`,
		"a\nb\tc\r\v\f\a\b\x00": `a\nb\tc\r\v\f\a\b\x00`,
		"\u009b31m":             `\u009b31m`,
		"\x7f":                  `\x7f`,
		"\u202egpj.exe":         `\u202egpj.exe`,
		"\U000e0041":            `\U000e0041`,
		"bad \xff byte":         `bad \xff byte`,
		"a replaced \ufffd":     "a replaced \ufffd",
		`back\slash "quote"`:    `back\slash "quote"`,
	} {
		if got := escapeText(in); got != want {
			t.Errorf("escapeText(%q) = %q, want %q", in, got, want)
		}
	}
}

// Whatever is in a string, both kinds of documents are harmless and mean what they meant.
func FuzzDocuments(f *testing.F) {
	for _, seed := range []string{hostile, "", "plain", "a\nb", "\ttab\n  indented", "key: value", "- item", "---", "\u2028\u0085", "\U0001f600\U0010fffd"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			return // JSON can't hold such strings; gRPC refuses them before
		}
		for _, output := range []output{outputJSON, outputYAML} {
			for _, stream := range []bool{true, false} {
				var b strings.Builder
				docs := documents{out: &b, output: output, stream: stream}
				if err := docs.print(map[string]string{"text": s}); err != nil {
					t.Fatal(err)
				}
				if output == outputJSON {
					harmless(t, "JSON", b.String())
				} else {
					harmless(t, "YAML", strings.ReplaceAll(b.String(), "\t", ""))
				}
				var got struct{ Text string }
				var err error
				if output == outputJSON {
					err = json.Unmarshal([]byte(b.String()), &got)
				} else {
					err = yaml.Unmarshal([]byte(b.String()), &got)
				}
				if err != nil || got.Text != s {
					t.Fatalf("%s: %q came back as %q, error %v, from:\n%s", output, s, got.Text, err, b.String())
				}
			}
		}
	})
}

// No command, in no format, lets what a pod or a daemon says act on the terminal.
func TestHostileContent(t *testing.T) {
	pod := testPod("default", "x"+hostile)
	pod.Spec.Containers[0].Image = hostile
	pod.Annotations["note"] = hostile
	desired := desiredPod(t, "file"+hostile, pod)
	observed := observedPod(t, "default", "x"+hostile, &corev1.PodStatus{Phase: corev1.PodPhase(hostile), Message: hostile,
		ContainerStatuses: []corev1.ContainerStatus{waiting("web"+hostile, hostile, hostile)}})
	observed.LastError = hostile
	// Goes to stderr, with the pod's name.
	undecodable := &podexecv1.ObservedPod{Ref: &podconfigv1.PodRef{Namespace: hostile, Name: hostile, Uid: "u" + hostile},
		Status: &podexecv1.ObservedPod_Protobuf{Protobuf: []byte("not a status")}}
	json := jsonPod(t, "file", hostile, hostile)

	synced := syncedAt(4)
	synced.GetSynced().Sources = []*podconfigv1.SourceReadiness{{Name: hostile}}
	for _, command := range []string{"pods", "sources", "watch"} {
		for _, output := range []string{"table", "wide", "json", "yaml"} {
			n := newNode(t)
			n.podconfigd(&fakePodconfigd{
				pods: []*podconfigv1.Pod{desired},
				sources: []*podconfigv1.Source{{Name: hostile, Location: hostile, LastError: hostile,
					Findings: []*podconfigv1.Finding{{Origin: hostile, Field: hostile, Message: hostile}}}},
				scripts: [][]*message{{op(0, opAdd, desired, json), sourceOp(0, opAdd, hostile, true), synced}},
			})
			n.podexecd(&fakePodexecd{pods: []*podexecv1.ObservedPod{observed, undecodable}})
			if command == "watch" {
				interrupt := n.start(command, "-o", output)
				n.stdout.await(t, map[string]string{"json": `"synced"`, "yaml": "synced"}[output])
				n.stdout.await(t, map[string]string{"table": "SYNCED", "wide": "SYNCED"}[output])
				interrupt()
			} else {
				n.run(t.Context(), command, "-o", output)
			}
			if n.stdout.String() == "" {
				t.Errorf("%s -o %s printed nothing: %s", command, output, n.stderr)
			}
			harmless(t, command+" -o "+output, n.stdout.String())
			harmless(t, command+" -o "+output+" on stderr", n.stderr.String())
			if got := n.stdout.String(); strings.HasPrefix(got, "next") || strings.Contains(got, "\nnext") {
				t.Errorf("%s -o %s starts a line with what a pod says:\n%s", command, output, got)
			}
		}
	}
}
