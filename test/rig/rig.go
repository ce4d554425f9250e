package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
)

// Rig is a pair of daemons on a node. Both can be stopped and started again.
type Rig struct {
	Node *devnode.Node
	// Name is the node's name for the daemons, and the suffix of its static pods. No two rigs on one node may share it.
	Name string
	// Manifests is podconfigd's manifest directory.
	Manifests            string
	Podconfigd, Podexecd *devnode.Process

	// Calls on these connections wait while a daemon isn't running.
	Config podconfigv1.PodConfigServiceClient
	Exec   podexecv1.PodExecServiceClient
	CRI    runtimeapi.RuntimeServiceClient

	conns []*grpc.ClientConn
}

// Start starts a pair of daemons with an empty manifest directory. flags are further flags of podexecd.
func Start(node *devnode.Node, name string, flags ...string) (*Rig, error) {
	r := &Rig{Node: node, Name: name, Manifests: node.Path(name, "manifests")}
	if err := r.start(r.WithKubeletDir(flags, true)); err != nil {
		return nil, errors.Join(fmt.Errorf("start rig %s: %w", name, err), r.Close())
	}
	return r, nil
}

// StartBefore is Start with a podexecd of a version without --kubelet-dir.
func StartBefore(node *devnode.Node, name string, flags ...string) (*Rig, error) {
	r := &Rig{Node: node, Name: name, Manifests: node.Path(name, "manifests")}
	if err := r.start(flags); err != nil {
		return nil, errors.Join(fmt.Errorf("start rig %s: %w", name, err), r.Close())
	}
	return r, nil
}

// WithKubeletDir returns the flags of a podexecd that has the flag --kubelet-dir, or of an earlier one, which hasn't. The directory
// is the rig's: no test writes to the machine's.
func (r *Rig) WithKubeletDir(flags []string, has bool) []string {
	const name = "--kubelet-dir"
	if at := slices.Index(flags, name); at >= 0 {
		flags = slices.Delete(slices.Clone(flags), at, at+2)
	}
	if !has {
		return flags
	}
	return append([]string{name, r.KubeletDir()}, flags...)
}

func (r *Rig) start(flags []string) error {
	if err := os.MkdirAll(r.Manifests, 0o755); err != nil {
		return err
	}
	for _, c := range []struct {
		endpoint string
		use      func(*grpc.ClientConn)
	}{
		{"unix://" + r.ConfigSocket(), func(c *grpc.ClientConn) { r.Config = podconfigv1.NewPodConfigServiceClient(c) }},
		{"unix://" + r.ExecSocket(), func(c *grpc.ClientConn) { r.Exec = podexecv1.NewPodExecServiceClient(c) }},
		{r.Node.Endpoint(), func(c *grpc.ClientConn) { r.CRI = runtimeapi.NewRuntimeServiceClient(c) }},
	} {
		conn, err := Dial(c.endpoint)
		if err != nil {
			return err
		}
		r.conns = append(r.conns, conn)
		c.use(conn)
	}
	var err error
	if r.Podconfigd, err = r.Node.StartDaemonAs(r.Name+"-podconfigd", "podconfigd", r.PodconfigdArgs()...); err != nil {
		return err
	}
	r.Podexecd, err = r.Node.StartDaemonAs(r.Name+"-podexecd", "podexecd", slices.Concat([]string{
		"--root-dir", r.Path("podexecd"), "--listen", "unix://" + r.ExecSocket(), "--hostname-override", r.Name,
		"--podconfig-endpoint", "unix://" + r.ConfigSocket(), "--container-runtime-endpoint", r.Node.Endpoint(),
		"--pod-logs-dir", r.Path("log", "pods"),
	}, flags)...)
	return err
}

// PodconfigdArgs returns podconfigd's flags.
func (r *Rig) PodconfigdArgs() []string {
	return []string{
		"--root-dir", r.Path("podconfigd"), "--listen", "unix://" + r.ConfigSocket(), "--hostname-override", r.Name,
		"--pod-manifest-path", r.Manifests,
	}
}

// Close ends the daemons with SIGKILL, and closes the connections. The pods keep running: see Clear.
func (r *Rig) Close() error {
	var errs []error
	for _, p := range []*devnode.Process{r.Podexecd, r.Podconfigd} {
		if p != nil {
			errs = append(errs, p.Kill())
		}
	}
	for _, c := range r.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Path returns a path beneath the rig's directory.
func (r *Rig) Path(elements ...string) string {
	return r.Node.Path(append([]string{r.Name}, elements...)...)
}

// KubeletDir returns a path beneath podexecd's --kubelet-dir.
func (r *Rig) KubeletDir(elements ...string) string {
	return r.Path(append([]string{"kubelet"}, elements...)...)
}

// ConfigSocket returns the path of podconfigd's socket.
func (r *Rig) ConfigSocket() string { return r.Node.Socket(r.Name + "c") }

// ExecSocket returns the path of podexecd's socket.
func (r *Rig) ExecSocket() string { return r.Node.Socket(r.Name + "x") }

// Write writes a manifest to a temporary file and renames it, so that podconfigd reads it whole.
func (r *Rig) Write(name, content string) error {
	temp := filepath.Join(r.Manifests, "."+name+".tmp")
	if err := os.WriteFile(temp, []byte(content), 0o644); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(r.Manifests, name))
}

// Remove removes a manifest.
func (r *Rig) Remove(name string) error {
	return os.Remove(filepath.Join(r.Manifests, name))
}

// Clear removes all manifests.
func (r *Rig) Clear() error {
	entries, err := os.ReadDir(r.Manifests)
	errs := []error{err}
	for _, e := range entries {
		errs = append(errs, r.Remove(e.Name()))
	}
	return errors.Join(errs...)
}

// Containers returns the runtime's containers of the rig's pod with that UID, or of all of the rig's pods if the UID
// is empty.
func (r *Rig) Containers(ctx context.Context, uid string) ([]*runtimeapi.Container, error) {
	filter := &runtimeapi.ContainerFilter{}
	if uid != "" {
		filter.LabelSelector = map[string]string{"io.kubernetes.pod.uid": uid}
	}
	resp, err := r.CRI.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: filter})
	return slices.DeleteFunc(resp.GetContainers(), func(c *runtimeapi.Container) bool {
		return !strings.HasSuffix(c.GetLabels()["io.kubernetes.pod.name"], "-"+r.Name)
	}), err
}

// Empty returns an error if a sandbox, log, directory or mount of any pod of the rig is left.
func (r *Rig) Empty(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	sandboxes, err := r.CRI.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	for _, s := range sandboxes.GetItems() {
		if strings.HasSuffix(s.GetMetadata().GetName(), "-"+r.Name) {
			return fmt.Errorf("the sandbox of %s is left", s.GetMetadata().GetName())
		}
	}
	for _, dir := range []string{r.KubeletDir("pods"), r.Path("podexecd", "pods"), r.Path("log", "pods"), r.Path("log", "containers")} {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		if len(entries) > 0 {
			return fmt.Errorf("%s still contains %s", dir, entries[0].Name())
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	if strings.Contains(string(mounts), r.Path()+"/") {
		return fmt.Errorf("a mount is left beneath %s", r.Path())
	}
	return nil
}

// Dial connects to a daemon. Calls wait while the daemon isn't running.
func Dial(endpoint string) (*grpc.ClientConn, error) {
	return grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond},
			// Without it, the delay also limits an attempt. If the limit is reached when the connection is ready, gRPC closes
			// it with the call on it, which fails as if the daemon had ended.
			MinConnectTimeout: 5 * time.Second,
		}))
}
