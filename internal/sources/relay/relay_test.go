package relay

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/manifest"
)

// TestOpsAreTheUpstreams: each op of the upstream becomes the same op here, on the same pods with the same digests.
func TestOpsAreTheUpstreams(t *testing.T) {
	up, own := start(t, "up", socket(t), "", "file", "api"), start(t, "own", "", "", "file", "relay")
	up.set("file", "a: web(image=1)")
	up.set("api", "b: db(uid=1-2,mirror=x)")
	up.up()
	relay(t, own, Config{Endpoint: up.endpoint})
	own.want("ADD relay: web 1-2")
	for _, step := range []struct{ source, text, want string }{
		{"file", "a: web(image=2)", "UPDATE relay: web"},
		{"file", "a: web(image=2,phase=Running)", "RECONCILE relay: web"},
		{"file", "a: web(image=2,phase=Running,deleting=5)", "DELETE relay: web"},
		{"file", "a: web(uid=new)", "REMOVE relay: web\nADD relay: new"},
		{"api", "", "REMOVE relay: 1-2"},
		{"api", "b: db(hash=h,label.l=v,ann.note=n,pad=8)", "ADD relay: db"},
	} {
		up.set(step.source, step.text)
		own.want(step.want)
		for _, p := range own.hub.History().State().Pods {
			there := up.hub.History().State().Pod(p.UID())
			if there == nil || there.SpecDigest != p.SpecDigest || there.StatusDigest != p.StatusDigest {
				t.Errorf("pod %s has not the digests of the upstream's: %+v", p, there)
			}
		}
	}
	db := own.hub.History().State().Pod("db").Object
	if got := db.Annotations[manifest.RelayPathAnnotation]; got != "up(id-up)/api" {
		t.Errorf("the relay-path is %q; want up(id-up)/api", got)
	}
	if got := db.Annotations[manifest.SourceAnnotation]; got != "relay" {
		t.Errorf("the pod's source is %q; want relay", got)
	}
}

// TestChain: a pod that comes through two podconfigds names both, keeps its digests and its mirror annotation,
// and each podconfigd has the whole path.
func TestChain(t *testing.T) {
	first, second, third := start(t, "first", socket(t), "", "file"), start(t, "second", socket(t), "", "relay:x"), start(t, "third", "", "", "relay")
	first.set("file", "a: web(mirror=m,ann.note=n)")
	first.up()
	second.up()
	x := relay(t, second, Config{Name: "relay:x", Endpoint: first.endpoint})
	second.want("ADD relay:x: web")
	last := relay(t, third, Config{Endpoint: second.endpoint})
	third.want("ADD relay: web")
	p, there := third.hub.History().State().Pod("web"), first.hub.History().State().Pod("web")
	if got := p.Object.Annotations[manifest.RelayPathAnnotation]; got != "second(id-secon)/relay:x,first(id-first)/file" {
		t.Errorf("the relay-path is %q; want second(id-secon)/relay:x,first(id-first)/file", got)
	}
	if p.Object.Annotations[manifest.MirrorAnnotation] != "m" || p.SpecDigest != there.SpecDigest {
		t.Errorf("the pod came as %v with %s; want its mirror annotation and %s", p.Object.Annotations, p.SpecDigest, there.SpecDigest)
	}
	if got := p.Origin; got != "relay:x default/web web" {
		t.Errorf("the origin is %q; want relay:x default/web web", got)
	}
	for relay, want := range map[*sets]string{x: "id-first", last: "id-second id-first"} {
		var got []string
		for _, hop := range relay.Path() {
			got = append(got, hop.GetId())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("the path of %s is %v; want %s", relay.cfg.Node, got, want)
		}
	}
}

// TestUnchangedOriginsAreTheSame: between two sets only changed origins have other pointers.
func TestUnchangedOriginsAreTheSame(t *testing.T) {
	up := start(t, "up", socket(t), "", "file")
	up.set("file", "a: web()\nb: db()")
	up.up()
	r := relay(t, nil, Config{Endpoint: up.endpoint})
	before := r.good()
	up.set("file", "a: web(image=2)\nb: db()")
	after := r.good()
	const names = "file default/db db, file default/web web"
	if origins(before) != names || origins(after) != names {
		t.Fatalf("the origins are %s, and then %s; want %s", origins(before), origins(after), names)
	}
	if before.Origins[0] != after.Origins[0] || before.Origins[1] == after.Origins[1] {
		t.Error("the pod that changed, and no other, is to have another origin")
	}
}

// TestNodes: by default only the pods of this node are relayed.
func TestNodes(t *testing.T) {
	up := start(t, "up", socket(t), "", "api")
	up.set("api", "a: web(node=own-node)\nb: db(node=other)\nc: free()")
	up.up()
	for _, tc := range []struct {
		nodes []string
		want  string
	}{
		{[]string{}, "api default/web web"},
		{[]string{"other", "own-node"}, "api default/db db, api default/web web"},
		{[]string{EveryNode}, "api default/db db, api default/free free, api default/web web"},
	} {
		r := relay(t, nil, Config{Endpoint: up.endpoint, Nodes: tc.nodes})
		if got := origins(r.good()); got != tc.want {
			t.Errorf("with nodes %q the origins are %s; want %s", tc.nodes, got, tc.want)
		}
		r.stop()
	}
}

// TestRecreation: a pod that was removed and created again under its UID while the stream was broken is removed
// and created again here.
func TestRecreation(t *testing.T) {
	up, own := start(t, "up", socket(t), "", "file"), start(t, "own", "", "", "relay")
	up.set("file", "a: web()\nb: db()")
	up.up()
	r := relay(t, own, Config{Endpoint: up.endpoint})
	own.want("ADD relay: db web")
	up.down()
	r.failed("podconfigd at " + up.endpoint)
	up.set("file", "b: db()")
	up.set("file", "a: web()\nb: db()")
	up.up()
	own.want("REMOVE relay: web")
	own.want("ADD relay: web")
}

// TestPriority: of two pods with one name, the one that the upstream would run is run here too, also when the
// upstream no longer has the other one.
func TestPriority(t *testing.T) {
	up, own := start(t, "up", socket(t), "", "file", "api"), start(t, "own", "", "", "relay")
	up.set("file", "a: other()")
	up.set("api", "a: web(uid=fromapi)")
	up.up()
	r := relay(t, own, Config{Endpoint: up.endpoint})
	own.want("ADD relay: other fromapi")
	up.kill()
	r.failed(up.endpoint)
	// The upstream restarts without a store, the API server is away, and there is now a static pod of that
	// name.
	again := start(t, "up", up.endpoint, "", "file", "api")
	again.set("file", "a: other()\nb: web(uid=fromfile)")
	again.up()
	own.want("REMOVE relay: fromapi\nADD relay: fromfile")
}

// TestTLS: over TCP both present certificates, and the relay's name is the name in its certificate.
// Certificates that can't be read are an error until they can be read.
func TestTLS(t *testing.T) {
	ca, dir := certtest.NewCA(t, "ca"), t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		certtest.WriteFile(t, path, data)
		return path
	}
	cert, key := ca.Issue(certtest.Request{Server: true})
	rules, err := access.New(access.Config{
		CertFile: file("s.crt", cert), KeyFile: file("s.key", key), ClientCAFile: file("ca.crt", ca.PEM),
		File: file("access.yaml", []byte("clients:\n- {commonName: relay.own, role: consumer}\n- {commonName: looker, role: inspector}\n")),
	})
	if err != nil {
		t.Fatal(err)
	}
	up := start(t, "up", "tcp://127.0.0.1:0", "", "file")
	up.set("file", "a: web()")
	up.upFor(rules)
	r := relay(t, nil, Config{
		Endpoint: up.endpoint, CertFile: filepath.Join(dir, "c.crt"), KeyFile: filepath.Join(dir, "c.key"), CAFile: filepath.Join(dir, "ca.crt"),
		Backoff: Backoff{Min: 10 * time.Millisecond, Max: 20 * time.Millisecond},
	})
	r.failed("c.crt: no such file")
	for _, as := range []struct{ name, want string }{{"stranger", "PermissionDenied: "}, {"looker", "redacted pods"}, {"relay.own", ""}} {
		cert, key = ca.Issue(certtest.Request{CommonName: as.name})
		file("c.key", key)
		file("c.crt", cert)
		if as.want != "" {
			r.failed(as.want)
		}
	}
	if got := origins(r.good()); got != "file default/web web" {
		t.Errorf("the origins are %s", got)
	}
	if req := <-up.requests; req.GetConsumer() != "" {
		t.Errorf("the relay's consumer name is %q; want only the name of its certificate", req.GetConsumer())
	}
}
