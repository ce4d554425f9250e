package relay

import (
	"path/filepath"
	"testing"

	"github.com/podstream/podstream/internal/manifest"
)

// TestMoved: a pod that moves unchanged from one source of the upstream to another is another pod, there and
// here: its relay-path differs. This also applies to a relay that was restarted meanwhile.
func TestMoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	up := start(t, "up", socket(t), "", "file", "api")
	up.set("file", "a: db()")
	up.set("api", "b: web()")
	up.up()
	own := start(t, "own", "", path, "relay")
	r := relay(t, own, Config{Endpoint: up.endpoint})
	own.want("ADD relay: db web")
	way := func(want string) {
		t.Helper()
		for _, p := range own.hub.History().State().Pods {
			if got := p.Object.Annotations[manifest.RelayPathAnnotation]; string(p.UID()) == "web" && got != want {
				t.Errorf("the path of web is %q; want %q", got, want)
			}
		}
	}
	way("up(id-up)/api")
	up.set("file", "a: db()\nb: web()")
	own.want("REMOVE relay: web")
	own.want("ADD relay: web")
	way("up(id-up)/file")

	r.stop()
	own.kill()
	up.set("file", "a: db()\nc: fresh()")
	own = start(t, "own", "", path, "relay")
	relay(t, own, Config{Endpoint: up.endpoint, Stored: func() []Stored { return own.stored("relay") }})
	// The source is then ready: it has all pods except the one that is created again.
	own.want("REMOVE relay: web\nADD relay: fresh")
	own.want("ADD relay: web")
	way("up(id-up)/api")
}
