package csi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/plugins"
)

// changedSince reports whether the channel is closed.
func changedSince(changed <-chan struct{}) bool {
	select {
	case <-changed:
		return true
	default:
		return false
	}
}

// TestDrivers: a driver can be got from its registration to its end, the list has the answers of NodeGetInfo, and each change is
// reported.
func TestDrivers(t *testing.T) {
	b := newBench(t, 0)
	f := b.start(t, "s")
	f.info = &csipb.NodeGetInfoResponse{
		NodeId: "node-1", MaxVolumesPerNode: math.MaxInt64,
		AccessibleTopology: &csipb.Topology{Segments: map[string]string{"topology.a.csi/zone": "z1"}},
	}
	var missing *NotRegisteredError
	if _, err := b.Get("a.csi"); !errors.As(err, &missing) || missing.Driver != "a.csi" ||
		err.Error() != "driver name a.csi not found in the list of registered CSI drivers" {
		t.Errorf("an unknown driver: %v", err)
	}
	before := b.Changed()
	d, instance := b.register(t, "a.csi", "s")
	want := []Registered{{"a.csi", NodeInfo{"node-1", math.MaxInt32, map[string]string{"topology.a.csi/zone": "z1"}}}}
	list, changed := b.List()
	if diff := cmp.Diff(want, list); diff != "" || !changedSince(before) || changedSince(changed) || d.Name() != "a.csi" {
		t.Errorf("the list has %s", diff)
	}
	f.set(func() { f.info = &csipb.NodeGetInfoResponse{NodeId: "node-1", MaxVolumesPerNode: 7} })
	must(t, b.Refresh(t.Context(), "a.csi"))
	if list, _ := b.List(); list[0].Info.MaxVolumes != 7 || !changedSince(changed) {
		t.Errorf("the list is %+v", list)
	}
	// Another instance takes its place; the end of the first one doesn't remove it.
	b.start(t, "s2")
	other, _ := b.register(t, "a.csi", "s2")
	instance.Close()
	if got, err := b.Get("a.csi"); got != other || err != nil {
		t.Errorf("the driver is %v, %v", got, err)
	}
	changed = b.Changed()
	(&instanceOf{b, other}).drop()
	if list, _ := b.List(); len(list) != 0 || !changedSince(changed) {
		t.Errorf("the list is %+v", list)
	}
}

// instanceOf is the instance of a driver.
type instanceOf struct {
	b *bench
	d *Driver
}

func (i *instanceOf) drop() { (&instance{i.b.Drivers, i.d}).Drop() }

// TestOpenRefuses: drivers that the API server wouldn't take, or whose versions aren't supported, are refused with the reason.
func TestOpenRefuses(t *testing.T) {
	b := newBench(t, 0)
	f := b.start(t, "s")
	segments := func(key, value string) *csipb.NodeGetInfoResponse {
		return &csipb.NodeGetInfoResponse{NodeId: "n", AccessibleTopology: &csipb.Topology{Segments: map[string]string{key: value}}}
	}
	many := segments("a", "b")
	for i := range maxSegments {
		many.AccessibleTopology.Segments[fmt.Sprintf("k%d", i)] = "v"
	}
	good := &csipb.NodeGetInfoResponse{NodeId: "n"}
	for _, tc := range []struct {
		name     string
		versions []string
		info     *csipb.NodeGetInfoResponse
		reason   string
	}{
		{"a/b", []string{"1.0.0"}, good, "isn't a driver's name"},
		{strings.Repeat("a", 64), []string{"1.0.0"}, good, "isn't a driver's name"},
		{"a.csi", nil, good, "no versions"},
		{"a.csi", []string{"2.0.0"}, good, "version"},
		{"a.csi", []string{"0.3.0"}, good, "version"},
		{"a.csi", []string{"1.0.0"}, &csipb.NodeGetInfoResponse{}, "no ID of the node"},
		{"a.csi", []string{"1.0.0"}, &csipb.NodeGetInfoResponse{NodeId: strings.Repeat("n", 257)}, "has 257 bytes"},
		{"a.csi", []string{"1.0.0"}, &csipb.NodeGetInfoResponse{NodeId: "n", MaxVolumesPerNode: -1}, "is -1"},
		{"a.csi", []string{"1.0.0"}, segments("a b", "c"), "can't be a label"},
		{"a.csi", []string{"1.0.0"}, segments("a", "b\nc"), "can't be a label"},
		{"a.csi", []string{"1.0.0"}, many, "65 segments"},
	} {
		f.set(func() { f.info = tc.info })
		if _, err := b.Open(t.Context(), b.plugin(t, tc.name, "s", tc.versions...)); err == nil || !strings.Contains(err.Error(), tc.reason) {
			t.Errorf("%v; want %q", err, tc.reason)
		}
	}
}

// TestAdmit: a second driver of a name is refused unless its highest supported version is higher, as with the kubelet.
func TestAdmit(t *testing.T) {
	b := newBench(t, 0)
	for _, tc := range []struct {
		current, next []string
		admitted      bool
	}{
		{[]string{"1.0.0"}, []string{"1.0.0"}, false},
		{[]string{"1.1.0"}, []string{"1.0.0"}, false},
		{[]string{"1.0.0"}, []string{"1.0.1"}, true},
		{[]string{"1.9.0"}, []string{"1.0.0", "1.10.0"}, true},
		{[]string{"1.0.0"}, []string{"2.0.0"}, false},
		{[]string{"1.0.0"}, nil, false},
	} {
		err := b.Admit(plugins.Plugin{Versions: tc.next}, plugins.Plugin{Versions: tc.current})
		if (err == nil) != tc.admitted {
			t.Errorf("%v after %v: %v", tc.next, tc.current, err)
		}
	}
}

// registrar is the registration service of a driver.
type registrar struct {
	registration.UnimplementedRegistrationServer
	info *registration.PluginInfo
	told chan *registration.RegistrationStatus
}

func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return r.info, nil
}

func (r *registrar) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	r.told <- s
	return &registration.RegistrationStatusResponse{}, nil
}

// TestWithManager: a driver that registers by the plugin manager can be called, and is gone with its registration socket.
func TestWithManager(t *testing.T) {
	b := newBench(t, 0)
	must(t, os.MkdirAll(filepath.Join(b.dir, "plugins", "a.csi"), 0o700))
	must(t, os.MkdirAll(filepath.Join(b.dir, "plugins_registry"), 0o700))
	f := b.start(t, "plugins/a.csi/csi.sock", csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)
	m := plugins.New(plugins.Config{
		Dir: b.dir, Kinds: map[string]plugins.Kind{plugins.CSIPlugin: b.Drivers}, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := m.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()
	r := &registrar{told: make(chan *registration.RegistrationStatus, 10), info: &registration.PluginInfo{
		Type: plugins.CSIPlugin, Name: "a.csi", Endpoint: filepath.Join(b.dir, "plugins/a.csi/csi.sock"), SupportedVersions: []string{"1.0.0"},
	}}
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, r)
	l := b.listen(t, "plugins_registry/a.csi-reg.sock")
	running.Go(func() { _ = server.Serve(l) })
	defer server.Stop()
	if s := <-r.told; !s.GetPluginRegistered() {
		t.Fatalf("the driver is told %v", s)
	}
	d, err := b.Get("a.csi")
	must(t, err)
	must(t, d.NodeStageVolume(t.Context(), Stage{VolumeID: "v", StagingPath: "/s"}))
	if c, err := d.Capabilities(t.Context()); c != (Capabilities{StageUnstage: true}) || err != nil {
		t.Errorf("the capabilities are %+v, %v", c, err)
	}
	asked := 0
	f.set(func() {
		asked = len(slices.DeleteFunc(slices.Clone(f.requests), func(r proto.Message) bool { _, ok := r.(*csipb.NodeGetCapabilitiesRequest); return !ok }))
	})
	if asked != 1 {
		t.Errorf("the capabilities were asked %d times", asked)
	}
	changed := b.Changed()
	server.Stop()
	<-changed
	if _, err := b.Get("a.csi"); err == nil {
		t.Error("the driver is still registered")
	}
}
