package skew

import (
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// claim starts a pod that appends a line to a file in the volume of its claim.
func (p *pair) claim() {
	p.t.Helper()
	rig.Must(p.t, p.Write(claimed+".yaml", fmt.Sprintf(`apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {terminationGracePeriodSeconds: 1,
  containers: [{name: c, image: %q, imagePullPolicy: IfNotPresent, args: [seq, append, /data/lines, line, ;, sleep],
    volumeMounts: [{name: data, mountPath: /data}]}],
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}
`, claimed, devnode.SampleImage)))
	p.kept[claimed] = p.awaitRunning(claimed)
	p.lines(1)
}

// keepsClaim checks that the pod of claim, which runs, has its claim with a podconfigd that knows none: podexecd, which
// doesn't end, starts its container again with the volume. When the pod goes, the volume is unmounted, and its data stays.
func (p *pair) keepsClaim() {
	p.t.Helper()
	_, err := rig.Get(p.Config.WatchObjects(p.t.Context(), &podconfigv1.WatchObjectsRequest{Consumer: "skew", KnownObjects: []*podconfigv1.KnownObject{{
		Ref: &podconfigv1.ObjectRef{Kind: podconfigv1.ObjectKind_OBJECT_KIND_PERSISTENT_VOLUME_CLAIM, Source: "file", Namespace: "default", Name: "data"},
	}}}))(p.t).Recv()
	// The tests of package client have a podconfigd that answers as this one.
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "known_objects[0].ref: has an unknown kind, or no name") {
		p.t.Errorf("podconfigd answers a known claim with %v; want INVALID_ARGUMENT that names it", err)
	}
	_, err = p.CRI.StopContainer(p.t.Context(), &runtimeapi.StopContainerRequest{ContainerId: p.kept[claimed].GetId()})
	rig.Must(p.t, err)
	p.lines(2)
	dir := p.KubeletDir("pods", p.kept[claimed].GetLabels()["io.kubernetes.pod.uid"])
	if _, err := os.Stat(dir); err != nil {
		p.t.Error(err)
	}
	delete(p.kept, claimed)
	rig.Must(p.t, p.Remove(claimed+".yaml"))
	p.eventually("the pod "+claimed+" is gone with its mounts", func() error {
		all, err := p.of(claimed)
		if err != nil || len(all) > 0 {
			return fmt.Errorf("it has %d containers, %w", len(all), err)
		}
		if _, err := os.Lstat(dir); !os.IsNotExist(err) {
			return fmt.Errorf("its directory with the volumes is left: %w", err)
		}
		return nil
	})
	p.lines(2)
}

// lines waits until the file in the claim's volume has as many lines.
func (p *pair) lines(want int) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("the claim's volume has %d lines", want), func() error {
		data, err := os.ReadFile(p.Path("podexecd", "claims", "default", "data", "lines"))
		if got := strings.Count(string(data), "line"); got != want {
			return fmt.Errorf("it has %d, %w", got, err)
		}
		return nil
	})
}
