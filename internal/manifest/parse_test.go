package manifest

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

var fileOptions = Options{Origin: "/etc/podstream/manifests/web.yaml", Node: "node1"}

const smallPod = `apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: web
    image: nginx:1.25
`

func TestBroken(t *testing.T) {
	o := Broken("/etc/podstream/manifests/web.yaml", errors.New("open: permission\ndenied"))
	checkOrigin(t, o)
	if !o.Held || len(o.Findings) != 1 || o.Findings[0].Severity != Error || o.Name != "/etc/podstream/manifests/web.yaml" {
		t.Errorf("got %+v", o)
	}
}

// TestSizes: a document may fill an origin, but not be larger.
func TestSizes(t *testing.T) {
	padding := "# " + strings.Repeat("x", 1022) + "\n"
	full := smallPod + strings.Repeat(padding, MaxSize/len(padding))
	full = full[:MaxSize]
	o := Parse([]byte(full), fileOptions)
	checkOrigin(t, o)
	if len(o.Pods) != 1 {
		t.Errorf("a full origin: %s", summary(o))
	}
	o = Parse([]byte(full+"x"), fileOptions)
	checkOrigin(t, o)
	if !o.Held || len(o.Pods) != 0 {
		t.Errorf("one byte over: %s", summary(o))
	}
}

// TestPodSize: a pod that can't be sent in every format is refused where it is read.
func TestPodSize(t *testing.T) {
	for _, c := range []struct{ name, spec, want string }{
		{"just fits", "    args: [" + strings.Repeat("x", MaxPodSize-8<<10) + "]\n", ""},
		{"text", "    args: [" + strings.Repeat("x", MaxPodSize) + "]\n", "as protobuf"},
		{"escaped", "    args: [" + strings.Repeat("<", MaxPodSize/4) + "]\n", "as JSON"},
		{"numbers", "  securityContext: {supplementalGroups: [" + strings.Repeat("1,", MaxPodSize/8) + "1]}\n", "google.protobuf.Struct"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Parse([]byte(smallPod+c.spec), fileOptions)
			checkOrigin(t, o)
			if c.want == "" && len(o.Pods) == 1 {
				return
			}
			if c.want == "" || len(o.Findings) != 1 || !strings.Contains(o.Findings[0].Message, c.want) {
				t.Errorf("want %q, got %s", c.want, summary(o))
			}
		})
	}
}

// TestBombs: a small file that stands for a large one is refused before it is one.
func TestBombs(t *testing.T) {
	laughs := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'z'; c++ {
		laughs += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
	}
	merges := "a: &a {k: v}\n"
	for c := 'b'; c <= 'z'; c++ {
		merges += fmt.Sprintf("%c: &%c {<<: [%s]}\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
	}
	for name, text := range map[string]string{
		"laughs": laughs,
		"merges": merges,
		// A few values, of which each is long: the parser's own limit doesn't see it.
		"text":             "a: &a " + strings.Repeat("x", 100<<10) + "\nb: [" + strings.Repeat("*a,", 20000) + "]\n",
		"deep":             strings.Repeat("[", 200000),
		"deep JSON":        `{"a":` + strings.Repeat(`{"a":`, 200000),
		"deep, and closed": "a: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			o := Parse([]byte(text), fileOptions)
			runtime.ReadMemStats(&after)
			checkOrigin(t, o)
			if len(o.Findings) != 1 || o.Findings[0].Severity != Error {
				t.Errorf("got %s", summary(o))
			}
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 128 {
				t.Errorf("%d MiB were used", used)
			}
		})
	}
}

// TestManyDoubledKeys: they are counted, and take no memory for each, however deep they are.
func TestManyDoubledKeys(t *testing.T) {
	const depth, keys = 4000, 100000
	const key = "éé"
	doubled := func(keys int) []byte {
		return []byte(smallPod + "  x: " + strings.Repeat("{"+key+": ", depth) + "{" + strings.Repeat("a: 1, ", keys) + "b: 1}" +
			strings.Repeat("}", depth) + "\n")
	}
	text := doubled(keys)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o := Parse(text, fileOptions)
	runtime.ReadMemStats(&after)
	checkOrigin(t, o)
	// The paths in full would take 2 GB by themselves.
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 512 {
		t.Errorf("%d MiB were used", used)
	}
	if o.Held || len(o.Pods) != 1 {
		t.Errorf("got %s", summary(o))
	}
	if got, want := o.Findings[0].Message, fmt.Sprintf("%d keys are set twice: the last one of each counts", keys-1); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// One of those that aren't reported may be the kind.
	if got := o.Findings[1].Field; got != "spec.x" {
		t.Errorf("field %q; want what may be shown of any document", got)
	}
	if got := Parse(doubled(maxDoubled/2), fileOptions).Findings[0].Field; !strings.HasPrefix(got, "spec.x."+key+".") || !strings.HasSuffix(got, "…") ||
		len(got) > maxMessage+len("…") || !utf8.ValidString(got) {
		t.Errorf("field %q of %d bytes; want the beginning of the path, cut between two characters", got, len(got))
	}
}

// TestManyDoubledKeysStrict: doubled keys that aren't reported one by one are errors too.
func TestManyDoubledKeysStrict(t *testing.T) {
	doubled := strings.Repeat("a: 1, ", maxDoubled+10)
	strict := Options{Origin: "o", OriginKind: URLKind, Node: "n", Strict: true}
	item := "{metadata: {name: %s}, spec: {containers: [{name: web, image: nginx}]}, %s}"
	for name, c := range map[string]struct{ data, want string }{
		"pod": {smallPod + "  x: {" + doubled + "}\n", fmt.Sprintf("%d keys are set twice", maxDoubled+9)},
		"list in YAML": {"{apiVersion: v1, kind: PodList, items: [" + fmt.Sprintf(item, "p", "x: {"+doubled+"}") + ", " +
			fmt.Sprintf(item, "q", "x: {a: 1, a: 2}") + "]}", fmt.Sprintf("%d keys are set twice", maxDoubled+10)},
		"list in JSON": {`{"apiVersion": "v1", "kind": "PodList", "items": [` + jsonItem("p", maxDoubled) + ", " + jsonItem("q", 1) + "]}",
			"aren't read: too many of their keys are set twice to tell which items are good"},
	} {
		o := Parse([]byte(c.data), strict)
		checkOrigin(t, o)
		if !o.Held || len(o.Pods) != 0 || o.Findings[0].Message != c.want {
			t.Errorf("%s: got %s, want no pod and %q", name, summary(o), c.want)
		}
	}
}

// jsonItem is a pod of which so many keys are set twice.
func jsonItem(name string, doubled int) string {
	text := `{"metadata": {"name": "` + name + `"}, "spec": {"containers": [{"name": "web", "image": "nginx"}], "nodeSelector": {"": ""`
	for i := range doubled {
		text += fmt.Sprintf(`, "k%d": "1", "k%[1]d": "2"`, i)
	}
	return text + "}}}"
}

// TestManyFindings: an origin of nothing but mistakes doesn't get a finding for each.
func TestManyFindings(t *testing.T) {
	o := Parse([]byte(strings.Repeat("--- x\n", 2000)), fileOptions)
	checkOrigin(t, o)
	if n := len(o.Findings); n != maxOriginFindings+1 {
		t.Errorf("%d findings", n)
	}
	if last := o.Findings[len(o.Findings)-1]; last.Message != "and 1500 more findings" {
		t.Errorf("the last one is %q", last.Message)
	}
}

// TestManyDocuments: the time that an origin takes is bounded as well.
func TestManyDocuments(t *testing.T) {
	list := `{"apiVersion": "v1", "kind": "PodList", "items": [1` + strings.Repeat(",1", maxDocuments) + "]}"
	for _, c := range []struct {
		data string
		kind Kind
	}{{strings.Repeat("--- x\n", maxDocuments+1), FileKind}, {list, URLKind}} {
		o := Parse([]byte(c.data), Options{Origin: "o", OriginKind: c.kind, Node: "n"})
		checkOrigin(t, o)
		// For a list this is reported first; for documents last, after the findings have been cut off.
		if n := len(o.Findings); n != maxOriginFindings+1 {
			t.Errorf("%d findings", n)
		}
		if want := fmt.Sprintf("and %d more findings", maxDocuments+1-maxOriginFindings); o.Findings[maxOriginFindings].Message != want {
			t.Errorf("got %q, want %q", o.Findings[maxOriginFindings].Message, want)
		}
	}
}

// TestLongMessage: a message may quote a value of any size, and is cut between two characters.
func TestLongMessage(t *testing.T) {
	o := Parse([]byte(strings.ReplaceAll(smallPod, "name: web", "name: "+strings.Repeat("é", 1000))), fileOptions)
	checkOrigin(t, o)
	for _, f := range o.Findings {
		if len(f.Message) > maxMessage+len("…") || !utf8.ValidString(f.Message) {
			t.Errorf("%d bytes: %q", len(f.Message), f.Message)
		}
	}
}

// TestOriginName: the origin bears the name that it was given, and a BOM and the line ends of Windows make no
// difference.
func TestOriginName(t *testing.T) {
	plain := Parse([]byte(smallPod), fileOptions)
	windows := Parse([]byte("\ufeff"+strings.ReplaceAll(smallPod, "\n", "\r\n")), fileOptions)
	checkOrigin(t, plain)
	checkOrigin(t, windows)
	if plain.Name != fileOptions.Origin || len(plain.Pods) != 1 {
		t.Fatalf("got %+v", plain)
	}
	if len(windows.Pods) != 1 || windows.Pods[0].UID != plain.Pods[0].UID || windows.Pods[0].SpecDigest != plain.Pods[0].SpecDigest {
		t.Errorf("got %s, and with a BOM %s", summary(plain), summary(windows))
	}
}

func TestImageVersion(t *testing.T) {
	for image, want := range map[string][3]string{
		"nginx":                       {"", "", "Always"},
		"nginx:latest":                {"latest", "", "Always"},
		"nginx:1":                     {"1", "", "IfNotPresent"},
		"reg:5000/a":                  {"", "", "Always"},
		"reg:5000/a:v1":               {"v1", "", "IfNotPresent"},
		"a@sha256:0123":               {"", "sha256:0123", "IfNotPresent"},
		"reg:5000/a@sha256:0123":      {"", "sha256:0123", "IfNotPresent"},
		"reg:5000/a:latest@sha256:01": {"latest", "sha256:01", "IfNotPresent"},
		"":                            {"", "", "Always"},
	} {
		tag, digest := imageVersion(image)
		if got := [3]string{tag, digest, string(pullPolicy(image))}; got != want {
			t.Errorf("%q: got %q, want %q", image, got, want)
		}
	}
}
