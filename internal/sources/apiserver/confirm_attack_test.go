package apiserver

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

// TestConfirmForeignNodes: a caller of which this Source has no pods can't have the pods of all nodes listed.
func TestConfirmForeignNodes(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	all := newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{}), Nodes: []string{AllNodes}})
	all.confirms.whole = false
	all.Confirm([]string{})
	if own, _ := all.confirms.begin(); own.all || len(own.nodes) != 1 || !own.nodes[noNode] {
		t.Errorf("%+v is due for no nodes; want a list of no pods", own)
	}
	some := newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{}), Nodes: []string{"n1", "n2"}})
	some.confirms.whole = false
	some.Confirm([]string{"n3"})
	if own, _ := some.confirms.begin(); own.all || len(own.nodes) != 1 || !own.nodes["n1"] {
		t.Errorf("%+v is due for a node of another Source; want one own node", own)
	}
	for range 2 {
		s, r, n := confirming(t, server, func(c *Config) { c.Nodes = []string{AllNodes} })
		_, _ = r.awaitConfirmed(n, s.Confirm([]string{}))
		r.stop()
	}
}

// TestConfirmRest: the rest between two confirmations follows what the lists took.
func TestConfirmRest(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: confirmEvery, 10 * time.Millisecond: confirmEvery - 10*time.Millisecond, 100 * time.Millisecond: 300 * time.Millisecond,
		time.Second: 3 * time.Second, time.Minute: maxRest,
	} {
		if got := restAfter(took); got != want {
			t.Errorf("after lists of %v it rests for %v; want %v", took, got, want)
		}
	}
}

// TestConfirmHostile: an API server that refuses the lists, or answers what they can't be, confirms nothing. Once it answers
// as it should, the same confirmation is completed.
func TestConfirmHostile(t *testing.T) {
	list := func(version, items, more string) string {
		return `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"` + version + `"` + more + `},"items":[` + items + `]}`
	}
	reply := func(body string) func() *apitest.Reply {
		return func() *apitest.Reply { return &apitest.Reply{ContentType: "application/json", Body: []byte(body)} }
	}
	for name, answer := range map[string]func() *apitest.Reply{
		"gone": func() *apitest.Reply { return apitest.Fail(http.StatusGone, metav1.StatusReasonExpired, "gone") },
		"too many requests": func() *apitest.Reply {
			return apitest.Fail(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "later")
		},
		"an error": func() *apitest.Reply {
			return apitest.Fail(http.StatusInternalServerError, metav1.StatusReasonInternalError, "no")
		},
		"no list":                   reply(`{"kind":"Pod","apiVersion":"v1"}`),
		"no JSON":                   reply(`{`),
		"no version":                reply(list("", "", "")),
		"a version that isn't one":  reply(list("-1", "", "")),
		"a version of 10 KB":        reply(list(strings.Repeat("9", 10<<10), "", "")),
		"pages without end":         reply(list("5", "", `,"continue":"x"`)),
		"more than a page may have": reply(list("5", `{"metadata":{"name":"`+strings.Repeat("x", maxPage)+`"}}`, "")),
		"pods that the watch lacks": reply(list("999999", `{"metadata":{"namespace":"ns","name":"ghost","uid":"g","resourceVersion":"999999"}}`, "")),
	} {
		t.Run(name, func(t *testing.T) {
			server := apitest.New(t, apitest.Config{})
			server.Put(newPod("a"))
			s, r, n := confirming(t, server)
			s.confirmPatience = 20 * time.Millisecond
			server.Answer(func(q apitest.Request) *apitest.Reply {
				if q.Metadata {
					return answer()
				}
				return nil
			})
			number := s.Confirm([]string{node})
			server.Await("lists", func(v apitest.View) bool { return v.Answered(isMetadata) >= 2 })
			r.neverConfirmed()
			server.Answer(nil)
			set, _ := r.awaitConfirmed(n, number)
			if names := originNames(set); len(names) != 1 {
				t.Errorf("the confirmed set has %v; want one pod", names)
			}
		})
	}
}
