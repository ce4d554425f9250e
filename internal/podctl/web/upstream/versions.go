package upstream

import (
	"context"
	"sync"
	"time"

	"github.com/podstream/podstream/internal/podctl/web/plaintext"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Version is a daemon's version, and the node that it serves. Empty: unknown.
type Version struct{ Version, Node string }

// versions are those of the daemons, by their names.
type versions struct {
	mu    sync.Mutex
	known map[string]Version
}

// Version returns the version of a daemon, as it last answered.
func (u *Upstream) Version(daemon string) Version {
	u.versions.mu.Lock()
	defer u.versions.mu.Unlock()
	return u.versions.known[daemon]
}

// ask asks a daemon that has just been reached. A daemon that doesn't answer has no version.
func (v *versions) ask(ctx context.Context, d *Daemon) {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var got Version
	switch d.Name {
	case "podconfigd":
		if r, err := podconfigv1.NewPodConfigServiceClient(d.Conn).GetVersion(ctx, &podconfigv1.GetVersionRequest{}); err == nil {
			got = Version{r.GetVersion(), r.GetNodeName()}
		}
	default:
		if r, err := podexecv1.NewPodExecServiceClient(d.Conn).GetVersion(ctx, &podexecv1.GetVersionRequest{}); err == nil {
			got = Version{r.GetVersion(), r.GetNodeName()}
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil {
		v.known = map[string]Version{}
	}
	v.known[d.Name] = Version{plaintext.Line(got.Version, plaintext.Name), plaintext.Line(got.Node, plaintext.Name)}
}
