package robustness

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
)

// relaySource is the name of a relay's source.
const relaySource = "relay"

// relayd is a podconfigd that relays another one, as a process. The simulation of its consumers drives it as a
// daemon.
type relayd struct {
	node *devnode.Node
	// name is also the name of its node.
	name, upstream string
	process        *devnode.Process
	roots          int
	conn           *grpc.ClientConn
}

func (r *relayd) endpoint() string { return "unix://" + r.node.Socket(r.name) }

// start is part of daemon. Its source may have delivered a set when it returns.
func (r *relayd) start(_ []string, kept bool) (at, error) {
	root := func() string { return r.node.Path(fmt.Sprintf("%s%d", r.name, r.roots)) }
	if !kept {
		before := root()
		if r.roots++; r.process != nil {
			if err := keepID(before, root()); err != nil {
				return at{}, err
			}
		}
	}
	args := []string{
		"--root-dir", root(), "--listen", r.endpoint(), "--hostname-override", r.name,
		"--pod-manifest-path=", "--relay-from", r.upstream, "--nodes", "*",
	}
	var err error
	if r.process == nil {
		r.process, err = r.node.StartDaemonAs(r.name, "podconfigd", args...)
	} else {
		r.process.Args = args
		err = r.process.Start()
	}
	if err != nil {
		return at{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := devnode.WaitServing(ctx, r.process, r.endpoint()); err != nil {
		return at{}, fmt.Errorf("%w; its output ends with:\n%s", err, r.process.LogTail())
	}
	r.conn, err = grpc.NewClient(r.endpoint(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithInitialWindowSize(window))
	if err != nil {
		return at{}, err
	}
	now, err := r.api().ListPods(ctx, &podconfigv1.ListPodsRequest{Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE})
	return at{instance: now.GetInstanceId(), revision: now.GetRevision()}, err
}

// api is part of daemon.
func (r *relayd) api() podconfigv1.PodConfigServiceClient {
	return podconfigv1.NewPodConfigServiceClient(r.conn)
}

// hurry is part of daemon.
func (r *relayd) hurry() bool { return false }

// apply is part of daemon. Its only source is the upstream.
func (r *relayd) apply(manifest.Set) (at, error) { return at{}, errors.New("a relay takes no sets") }

// configure is part of daemon.
func (r *relayd) configure([]string) (at, bool, error) { return at{}, false, nil }

// kill is part of daemon.
func (r *relayd) kill(*manifest.Set, chance) (at, bool, error) {
	return at{}, false, errors.Join(r.process.Kill(), r.disconnect())
}

func (r *relayd) disconnect() error {
	if r.conn == nil {
		return nil
	}
	err := r.conn.Close()
	r.conn = nil
	return err
}

// close is part of daemon.
func (r *relayd) close() {
	if r.process != nil {
		_ = r.process.Kill()
		_ = r.disconnect()
	}
}
