package relay

import (
	"path/filepath"
	"testing"
)

// TestReconnect: after a broken stream no op is repeated, and changes meanwhile come once.
func TestReconnect(t *testing.T) {
	up, own := start(t, "up", socket(t), "", "file"), start(t, "own", "", "", "relay")
	up.set("file", "a: web()\nb: db()")
	up.up()
	r := relay(t, own, Config{Endpoint: up.endpoint})
	own.want("ADD relay: db web")
	<-up.requests
	r.good()
	for i := range 2 {
		up.down()
		r.failed("podconfigd at " + up.endpoint)
		up.up()
		if req := <-up.requests; req.GetResumeAfter().GetRevision() != 1 || known(req) != "file:db file:web" {
			t.Errorf("the relay resumes after %v, knowing %s; want after revision 1, knowing both pods", req.GetResumeAfter(), known(req))
		}
		r.good()
		if n := own.hub.History().Number(); n != 1 {
			t.Errorf("after reconnect %d the last revision is %d; want none to be made by it", i, n)
		}
	}
	up.down()
	up.set("file", "a: web(image=2)")
	up.up()
	own.want("REMOVE relay: db\nUPDATE relay: web")
	if n := r.log.Count("in step with the upstream"); n != 4 {
		t.Errorf("that the upstream is back is logged %d times; want once for each of the 4 times", n)
	}
}

// TestUpstreamRestarts: with its store, an upstream's restart changes nothing. Without it, nothing is removed
// before its source was read.
func TestUpstreamRestarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	up, own := start(t, "up", socket(t), path, "file", "api"), start(t, "own", "", "", "relay")
	up.set("file", "a: web()")
	up.set("api", "b: db()")
	up.up()
	r := relay(t, own, Config{Endpoint: up.endpoint})
	own.want("ADD relay: web db")
	r.good()
	up.kill()
	r.failed(up.endpoint)

	up = start(t, "up", up.endpoint, path, "file", "api")
	up.up()
	if got := origins(r.good()); got != "file default/web web, api default/db db, file (not ready upstream)!, api (not ready upstream)!" {
		t.Errorf("after a restart the origins are %s", got)
	}
	up.set("file", "a: web(image=2)")
	own.want("UPDATE relay: web")
	up.kill()
	r.failed(up.endpoint)

	up = start(t, "up", up.endpoint, "", "file", "api")
	up.up()
	up.set("file", "c: new()")
	own.want("REMOVE relay: web\nADD relay: new")
	if own.pods() != "db new" {
		t.Errorf("the pods are %s; want new, and db, because the API server isn't read yet", own.pods())
	}
	up.set("api", "")
	own.want("REMOVE relay: db")
}

// TestUnreadyUpstream: a relay is ready when all sources of its upstream are.
func TestUnreadyUpstream(t *testing.T) {
	up, own := start(t, "up", socket(t), "", "file", "api"), start(t, "own", "", "", "relay")
	up.set("file", "a: web()")
	up.up()
	r := relay(t, own, Config{Endpoint: up.endpoint})
	rev := own.want("ADD relay: web")
	if rev.BecameReady || own.ready("relay") {
		t.Error("the relay is ready; want it not to be while api isn't")
	}
	set := r.good()
	if got := origins(set); got != "file default/web web, api (not ready upstream)!" {
		t.Fatalf("the origins are %s; want one for api, held", got)
	}
	if got := set.Origins[1].Findings[0].Message; got != "source api of the podconfigd on up isn't ready; what it had before is kept" {
		t.Errorf("the finding is %q", got)
	}
	up.set("file", "a: web(image=2)")
	own.want("UPDATE relay: web")
	if again := r.good(); again.Origins[1] != set.Origins[1] {
		t.Error("the origin of api changed; want the same pointer")
	}
	up.set("api", "")
	if rev := own.want("ADD relay:"); !rev.BecameReady {
		t.Error("the relay isn't ready; want it to be when api is")
	}
}

// TestRestart: a relay that starts with stored pods requests only the difference, and produces ops only for it.
// Stored pods don't change before the upstream is reached.
func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	up, own := start(t, "up", socket(t), "", "file", "api"), start(t, "own", "", path, "relay")
	up.set("file", "a: web()\nb: db(phase=Running)\nc: gone()")
	up.set("api", "d: kept()")
	up.up()
	r := relay(t, own, Config{Endpoint: up.endpoint})
	own.want("ADD relay: db gone web kept")
	<-up.requests
	restart := func() {
		t.Helper()
		r.stop()
		own.kill()
		own = start(t, "own", "", path, "relay")
		r = relay(t, own, Config{Endpoint: up.endpoint, Stored: func() []Stored { return own.stored("relay") }})
	}
	restart()
	own.want("ADD relay:")
	for _, p := range own.hub.History().State().Pods {
		if p.Stale {
			t.Errorf("pod %s is stale; want it confirmed", p)
		}
	}
	req := <-up.requests
	if req.GetResumeAfter() != nil || known(req) != "api:kept file:db file:gone file:web" {
		t.Errorf("the relay resumes after %v, knowing %s; want all pods and no cursor", req.GetResumeAfter(), known(req))
	}
	for _, k := range req.GetKnownPods() {
		if p := up.hub.History().State().Pod("web"); k.GetUid() == "web" && (k.GetSpecDigest() != p.SpecDigest || k.GetStatusDigest() != p.StatusDigest) {
			t.Errorf("web is known with other digests than it has: %v", k)
		}
	}
	r.stop()
	up.set("file", "a: web(image=2)\nb: db(phase=Failed)\ne: new()")
	up.down()
	restart()
	r.failed("podconfigd at " + up.endpoint)
	if got, n := own.pods(), own.hub.History().Number(); got != "db gone kept web" || n != own.at {
		t.Errorf("before the upstream is reached the pods are %s at revision %d; want all of the store, and no revision", got, n)
	}
	up.up()
	own.want("REMOVE relay: gone\nADD relay: new\nUPDATE relay: web\nRECONCILE relay: db")
}

// TestRestartBesideAnUnreadyUpstream: a restarted relay isn't ready before its upstream is either, though its
// store has all pods. They are served meanwhile, and none is removed.
func TestRestartBesideAnUnreadyUpstream(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	up, own := start(t, "up", socket(t), "", "file", "api"), start(t, "own", "", path, "relay")
	up.set("file", "a: web()")
	up.set("api", "d: kept()")
	up.up()
	r := relay(t, own, Config{Endpoint: up.endpoint})
	own.want("ADD relay: web kept")
	r.stop()
	own.kill()
	up.kill()
	up = start(t, "up", up.endpoint, "", "file", "api")
	up.set("file", "a: web()")
	up.up()
	own = start(t, "own", "", path, "relay")
	relay(t, own, Config{Endpoint: up.endpoint, Stored: func() []Stored { return own.stored("relay") }})
	if rev := own.want("settled"); rev.BecameReady || own.ready("relay") || own.pods() != "kept web" {
		t.Errorf("the relay is ready, or its pods are %s; want it to wait for api, with kept and web", own.pods())
	}
	up.set("api", "")
	if rev := own.want("REMOVE relay: kept\nADD relay:"); !rev.BecameReady {
		t.Error("the relay isn't ready; want it to be when api is")
	}
}

// TestStoredElsewhere: a stored pod of an origin that isn't a relay's is found in its new origin, or removed
// when all sources are ready.
func TestStoredElsewhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	up, own := start(t, "up", socket(t), "", "file", "api"), start(t, "own", "", path, "relay")
	own.set("relay", "elsewhere: web() db()")
	own.kill()
	own = start(t, "own", "", path, "relay")
	up.set("file", "a: web()")
	up.up()
	relay(t, own, Config{Endpoint: up.endpoint, Stored: func() []Stored { return own.stored("relay") }})
	own.want("settled")
	if own.pods() != "db web" {
		t.Errorf("the pods are %s; want both, because api isn't read yet", own.pods())
	}
	up.set("api", "")
	own.want("REMOVE relay: db\nADD relay:")
	if got := own.hub.History().State().Pod("web").Origin; got != "file default/web web" {
		t.Errorf("web is of the origin %q", got)
	}
}
