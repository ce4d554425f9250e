package migration

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/podstream/podstream/internal/execsvc/decide/adoption"
)

// The most that an examination of hostile input may allocate and take. Input that is refused at once takes a small part of it.
const (
	maxAllocated = 512 << 20
	maxTime      = 20 * time.Second
)

// frugally calls f, and checks what it allocates and how long it takes.
func frugally(t *testing.T, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	f()
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > maxAllocated || took > maxTime {
		t.Errorf("it allocates %d MiB and takes %v; want at most %d MiB and %v", n>>20, took, maxAllocated>>20, maxTime)
	} else {
		t.Logf("it allocates %d MiB and takes %v", n>>20, took)
	}
}

// serve makes the answer that of the API server.
func (k *kubelet) serve(answer http.HandlerFunc) {
	k.t.Helper()
	server := httptest.NewServer(answer)
	k.t.Cleanup(server.Close)
	k.write("kubeconfig", `{"clusters":[{"name":"c","cluster":{"server":"`+server.URL+`"}}],"contexts":[{"name":"x","context":{"cluster":"c"}}],"current-context":"x"}`)
	k.cfg.Kubeconfig, k.cfg.KubeconfigGiven = filepath.Join(k.dir, "kubeconfig"), true
}

// labels returns that many labels in JSON.
func labels(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`"%x":""`, i))
	}
	return strings.Join(out, ",")
}

// TestSmallTextOfManyPods: a list whose text is short, and whose values take hundreds of times as much memory, is refused before.
func TestSmallTextOfManyPods(t *testing.T) {
	many := func(item string, size int) string {
		return strings.TrimSuffix(strings.Repeat(item+",", size/(len(item)+1)), ",")
	}
	ofNode := func(field string) string {
		return `{"metadata":{"namespace":"d","name":"n","uid":"u"},"spec":{"nodeName":"node1",` + field + `}}`
	}
	for name, test := range map[string]struct{ items, want string }{
		"items":       {many("{}", 3<<20), "more than 131072 items"},
		"null":        {many("null", 3<<20), "more than 131072 items"},
		"containers":  {ofNode(`"containers":[` + many("{}", 3<<20) + `]`), "list elements"},
		"nulls":       {ofNode(`"containers":[` + many("null", 3<<20) + `]`), "list elements"},
		"volumes":     {ofNode(`"volumes":[` + many("{}", 3<<20) + `]`), "list elements"},
		"managed":     {strings.Replace(ofNode(`"x":0`), `{"name`, `{"managedFields":[`+many("{}", 3<<20)+`],"name`, 1), "list elements"},
		"a large one": {ofNode(`"x":"` + strings.Repeat("x", 9<<20) + `"`), "larger than 8 MiB"},
		"pods":        {many(ofNode(`"x":0`), 20<<20), "beyond 16384 pods of the node"},
		"large pods":  {many(ofNode(`"x":"`+strings.Repeat("x", 1<<20)+`"`), 20<<20), "beyond 16 MiB"},
		"a pod":       {ofNode(`"containers":[` + many("{}", 3<<10) + `]`), "has 1024 containers"},
		"labels":      {many(strings.Replace(ofNode(`"x":0`), `"uid`, `"labels":{`+labels(100_000)+`},"uid`, 1), 15<<20), "beyond 524288 values"},
		// The most that is accepted.
		"all containers": {many(ofNode(`"containers":[`+many("{}", 2<<10)+`]`), 280<<10), ""},
		"all labels":     {many(strings.Replace(ofNode(`"x":0`), `"uid`, `"labels":{`+labels(100_000)+`},"uid`, 1), 2<<20), ""},
		"elsewhere":      {strings.ReplaceAll(many(ofNode(`"containers":[`+many("{}", 3<<20)+`]`), 7<<20), "node1", "node2"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKubelet(t)
			text := []byte(`{"kind":"PodList","items":[` + test.items + `]}`)
			check := func(from string, err error) {
				if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s: %v; want %q", from, err, test.want)
				}
			}
			if name != "elsewhere" {
				k.cfg.Pods = text
				frugally(t, func() { _, err := Examine(t.Context(), k.cfg); check("--pods", err) })
				k.cfg.Pods = nil
			}
			k.serve(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) })
			frugally(t, func() { _, err := Examine(t.Context(), k.cfg); check("the API server", err) })
		})
	}
}

// TestYAMLOfManyValues: a list in YAML is bounded before it is converted.
func TestYAMLOfManyValues(t *testing.T) {
	for name, text := range map[string]string{
		"values": "kind: List\nitems: [" + strings.Repeat("{},", 1<<20) + "]\n",
		"size":   "kind: List\nitems: []\nx: " + strings.Repeat("x", 9<<20) + "\n",
	} {
		k := newKubelet(t)
		k.cfg.Pods = []byte(text)
		frugally(t, func() {
			if _, err := Examine(t.Context(), k.cfg); err == nil || !strings.Contains(err.Error(), "use -o json") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestEndOfTheContext: a list isn't read on once the context has ended.
func TestEndOfTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	list := newPodList("node1")
	if _, err := list.read(ctx, strings.NewReader(`{"items":[{}]}`)); err != context.Canceled || list.items > 0 { //nolint:errorlint // It is the cause itself.
		t.Errorf("%v after %d items", err, list.items)
	}
}

// TestSlowSpace: white space in small pieces takes a time that is proportional to its size.
func TestSlowSpace(t *testing.T) {
	frugally(t, func() {
		list := newPodList("node1")
		if _, err := list.read(t.Context(), iotest.OneByteReader(strings.NewReader("{"+strings.Repeat(" ", 1<<20)+"}"))); err != nil {
			t.Error(err)
		}
	})
}

// TestEndlessPages: pages, and their tokens, are bounded.
func TestEndlessPages(t *testing.T) {
	for token, want := range map[string]string{"x": "more than 1000 pages", strings.Repeat("x", 17<<10): "is too long"} {
		k := newKubelet(t)
		k.serve(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"kind":"PodList","metadata":{"continue":"` + token + `"},"items":[{}]}`))
		})
		if _, err := Examine(t.Context(), k.cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// TestRejectedPods: while podconfigd rejects a pod of the API server, podexecd removes no API pod that it doesn't have.
func TestRejectedPods(t *testing.T) {
	k := newKubelet(t)
	kept, gone, bad := pod("kept", "6a1e3f0c-1"), pod("gone", "6a1e3f0c-2"), pod("bad", "..")
	k.run(kept, "api")
	k.run(gone, "api")
	k.list(kept, bad)
	r := k.examine()
	if got := actions(r); got["kept"] != adoption.Keep || got["gone"] != adoption.Keep || len(r.Notes) != 1 ||
		!strings.Contains(r.Notes[0], "podconfigd rejects a pod: default/bad: metadata.uid") {
		t.Errorf("the actions are %v, the notes %q", got, r.Notes)
	}
	k.list(kept)
	if got := actions(k.examine()); got["gone"] != adoption.Remove {
		t.Errorf("without the rejected one, the actions are %v", got)
	}
}

// TestDeadline: a pod that podexecd ends by its activeDeadlineSeconds isn't kept.
func TestDeadline(t *testing.T) {
	for seconds, want := range map[int64]adoption.Action{1: adoption.Remove, 3600: adoption.Keep} {
		k := newKubelet(t)
		p := pod("web", "6a1e3f0c-1")
		k.run(p, "api")
		p.Spec.ActiveDeadlineSeconds = &seconds
		k.list(p)
		k.cfg.Clock = laterBy(time.Minute)
		if got := actions(k.examine()); got["web"] != want {
			t.Errorf("with a deadline of %d s: %v; want %s", seconds, got, want)
		}
	}
}

// laterBy is a clock that is that much ahead.
type laterBy time.Duration

func (d laterBy) Now() time.Time                   { return time.Now().Add(time.Duration(d)) }
func (d laterBy) Since(at time.Time) time.Duration { return d.Now().Sub(at) }
