package image_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

const ifNotPresent = v1.PullIfNotPresent

// TestSecondTenant: a private image that one tenant's pod has pulled isn't for another tenant, also after a restart.
func TestSecondTenant(t *testing.T) {
	w := newWorld(t)
	w.secret("a", "pull", "uid-a", "alice", "sesame")
	w.secret("b", "pull", "uid-b", "mallory", "guess")
	w.wantRuns("the tenant with the secret", pod("a", ifNotPresent, app, "pull"))
	w.wantPulls("it", 1)
	for _, when := range []string{"before a restart", "after a restart"} {
		w.wantRuns(when+": the tenant with the secret again", pod("a", ifNotPresent, app, "pull"))
		w.wantRuns(when+": with the policy Never", pod("a", v1.PullNever, app, "pull"))
		w.wantPulls(when+": it", 0)
		for what, p := range map[string]*v1.Pod{
			"no secret":                               pod("b", ifNotPresent, app),
			"a wrong secret of the same name":         pod("b", ifNotPresent, app, "pull"),
			"a secret that doesn't exist":             pod("b", ifNotPresent, app, "other"),
			"no secret in the namespace that has it":  pod("a", ifNotPresent, app),
			"no secret, from a manifest":              pod("file a", ifNotPresent, app, "pull"),
			"another name of the same image":          pod("b", ifNotPresent, other),
			"another name of it, by the first tenant": pod("b", ifNotPresent, other, "pull"),
			"by digest":              pod("b", ifNotPresent, "registry.example/private/app@"+digestOf("sha256:a99")),
			"by tag and digest":      pod("b", ifNotPresent, app+"@"+digestOf("sha256:a99")),
			"with the policy Always": pod("b", v1.PullAlways, app),
		} {
			w.wantRefused(when+": "+what, p)
		}
		w.wantPulls(when+": refused pods", 10)
		w.restart()
	}
	w.secret("b", "pull", "uid-b", "bob", "hunter2")
	w.wantRuns("the second tenant with a good secret", pod("b", ifNotPresent, app, "pull"))
	w.wantPulls("it", 1)
	w.wantRuns("the same again", pod("b", ifNotPresent, app, "pull"))
	w.wantPulls("it", 0)
}

// TestNever: with the policy Never the pod can't find out that the node has the image.
func TestNever(t *testing.T) {
	w := newWorld(t)
	absent := w.starts(pod("b", v1.PullNever, app))
	w.secret("a", "pull", "uid-a", "alice", "sesame")
	w.wantRuns("the tenant with the secret", pod("a", ifNotPresent, app, "pull"))
	refused := w.starts(pod("b", v1.PullNever, app))
	if want := `ErrImageNeverPull: Container image "` + app + `" is not present with pull policy of Never`; absent != want || refused != want {
		t.Errorf("absent: %s\nrefused: %s\nwant both: %s", absent, refused, want)
	}
	w.wantPulls("both", 1)
}

// TestLoaded: an image that was loaded is for all pods. A pull of its name that fails changes nothing.
func TestLoaded(t *testing.T) {
	w := newWorld(t)
	for _, policy := range []v1.PullPolicy{ifNotPresent, v1.PullNever} {
		w.wantRuns("loaded", pod("a", policy, "loaded:1"))
	}
	if got := w.starts(pod("b", v1.PullAlways, "loaded:1")); !strings.HasPrefix(got, "ErrImagePull") {
		t.Errorf("Always: %s", got)
	}
	w.wantRuns("loaded, after a failed pull", pod("a", v1.PullNever, "loaded:1"))
	w.restart()
	w.wantRuns("loaded, after a restart", pod("a", v1.PullNever, "loaded:1"))
}

// TestCopyOfLoaded: a tenant that pulls a private copy of a loaded image doesn't take it from the others, and the copy
// isn't for them.
func TestCopyOfLoaded(t *testing.T) {
	w := newWorld(t)
	w.runtime.offers[app] = w.runtime.has["docker.io/library/loaded:1"]
	w.secret("a", "pull", "uid-a", "alice", "sesame")
	w.wantRuns("the copy", pod("a", ifNotPresent, app, "pull"))
	w.wantPulls("it", 1)
	for range 2 {
		w.wantRuns("the loaded image", pod("b", v1.PullNever, "loaded:1"))
		w.wantRefused("the copy, for another tenant", pod("b", ifNotPresent, app))
		w.wantPulls("it", 1)
		w.restart()
	}
}

// TestPublic: an image that was pulled without credentials, or with the node's, is for all pods.
func TestPublic(t *testing.T) {
	w := newWorld(t)
	w.wantRuns("public", pod("a", ifNotPresent, "registry.example/public/app:1"))
	w.wantPulls("it", 1)
	w.restart()
	w.wantRuns("public, by another", pod("b", v1.PullNever, "registry.example/public/app:1"))
	writeFile(t, w.dir+"/config.json", `{"auths":{"registry.example":{"username":"alice","password":"sesame"}}}`)
	w.wantRuns("with the node's credentials", pod("a", ifNotPresent, app))
	w.wantPulls("it", 1)
	w.wantRuns("with the node's credentials, by another", pod("b", v1.PullNever, app))
	w.wantPulls("it", 0)
}

// TestRotated: a secret that was changed is the same one; one that was deleted and created again isn't, unless it has
// the same login. Beside manifests a secret is known by its login only.
func TestRotated(t *testing.T) {
	w := newWorld(t)
	w.secret("a", "pull", "uid-a", "alice", "sesame")
	w.wantRuns("at first", pod("a", ifNotPresent, app, "pull"))
	w.wantPulls("it", 1)
	w.secret("a", "pull", "uid-a", "alice", "new")
	w.wantRuns("rotated", pod("a", ifNotPresent, app, "pull"))
	w.secret("c", "copy", "uid-c", "alice", "new")
	w.wantRuns("the same login in another namespace", pod("c", ifNotPresent, app, "copy"))
	w.wantPulls("they", 0)
	w.secret("a", "pull", "uid-2", "alice", "guess")
	w.wantRefused("created again", pod("a", ifNotPresent, app, "pull"))
	w.secret("a", "pull", "uid-3", "alice", "new")
	w.wantRuns("created again with the same login", pod("a", ifNotPresent, app, "pull"))
	w.wantPulls("they", 1)

	w.secret("m", "pull", "", "bob", "hunter2")
	w.wantRuns("beside a manifest", pod("file m", ifNotPresent, app, "pull"))
	w.wantRuns("beside a manifest, again", pod("file m", ifNotPresent, app, "pull"))
	w.wantPulls("they", 1)
	w.secret("m", "pull", "", "bob", "guess")
	w.wantRefused("beside a manifest, with another login", pod("file m", ifNotPresent, app, "pull"))
	w.secret("m2", "mine", "", "bob", "hunter2")
	w.wantRuns("beside another manifest, with the same login", pod("file m2", ifNotPresent, app, "mine"))
	w.wantPulls("they", 1)
}

// TestRemoved: when an image was removed and another tenant has pulled it again, both may use it. When it is gone, so
// is its record.
func TestRemoved(t *testing.T) {
	w := newWorld(t)
	w.secret("a", "pull", "uid-a", "alice", "sesame")
	w.secret("b", "pull", "uid-b", "bob", "hunter2")
	w.wantRuns("the first", pod("a", ifNotPresent, app, "pull"))
	collect := func() {
		done := w.records.Listing()
		list, _ := w.runtime.ListImages(t.Context(), nil)
		done(list)
	}
	w.runtime.set(func() { clear(w.runtime.has) })
	collect()
	w.wantRuns("the second", pod("b", ifNotPresent, app, "pull"))
	collect()
	w.wantPulls("they", 2)
	w.wantRuns("the first again", pod("a", ifNotPresent, app, "pull"))
	w.wantPulls("it", 0)
	w.wantRefused("a third", pod("c", ifNotPresent, app))
}
