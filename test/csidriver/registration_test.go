package csidriver

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/podstream/podstream/internal/execsvc/setup/csi"
	"github.com/podstream/podstream/internal/execsvc/setup/plugins"
	"github.com/podstream/podstream/test/csidriver/calllog"
)

// TestRegistration: podexecd's plugin manager registers the driver with its node ID, topology and limit, and again after its death.
func TestRegistration(t *testing.T) {
	var registry string
	b := newBench(t, func(o *Options) {
		kubelet := filepath.Dir(o.Dir)
		registry = filepath.Join(kubelet, "plugins_registry")
		o.Endpoint = filepath.Join(kubelet, "plugins", "test", "csi.sock")
		o.Registration = filepath.Join(registry, "test-reg.sock")
		o.Topology, o.MaxVolumes = map[string]string{"zone": "a"}, 7
		must(t, os.MkdirAll(registry, 0o750))
	})
	drivers := csi.New(csi.Config{})
	manager := plugins.New(plugins.Config{
		Dir: b.dir, Log: slog.New(slog.DiscardHandler), Kinds: map[string]plugins.Kind{plugins.CSIPlugin: drivers},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = manager.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })

	awaitRegistered(t, b)
	d, err := drivers.Get("csi.podstream.test")
	must(t, err)
	if info := d.Info(); info.NodeID != "node-1" || info.Topology["zone"] != "a" || info.MaxVolumes != 7 {
		t.Errorf("registered with %+v", info)
	}
	b.restart()
	awaitRegistered(t, b)
	if r := b.readLog().Registrations; len(r) < 2 || r[0].Message != "" {
		t.Errorf("the log has the registrations %+v", r)
	}
	for _, c := range b.readLog().Of("NodeStageVolume") {
		t.Errorf("the registration has made the call %v", c)
	}
}

func awaitRegistered(t *testing.T, b *bench) {
	t.Helper()
	select {
	case <-b.Registered():
	case <-b.ctx().Done():
		t.Fatalf("the driver isn't registered; its log has %+v", b.readLog().Registrations)
	}
}

// TestRegistrationOptions: the registration may differ from the driver, for tests of the plugin manager.
func TestRegistrationOptions(t *testing.T) {
	o, err := Options{Dir: "/d", Name: "n", RegistrationName: "other", RegistrationVersions: []string{"2.0.0", "1.0.0"}}.complete()
	must(t, err)
	info, err := registration{d: &Driver{opts: o}}.GetInfo(t.Context(), nil)
	must(t, err)
	if info.GetName() != "other" || info.GetEndpoint() != "/d/csi.sock" || len(info.GetSupportedVersions()) != 2 {
		t.Errorf("GetInfo answers %v", info)
	}
}

// TestList: volumes are listed in pages, also from a token whose volume is gone.
func TestList(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Volumes = []string{"a", "b=1", "c"} })
	page, err := b.ctl.ListVolumes(b.ctx(), &csipb.ListVolumesRequest{MaxEntries: 2})
	must(t, err)
	if len(page.GetEntries()) != 2 || page.GetEntries()[1].GetVolume().GetCapacityBytes() != 1 || page.GetNextToken() == "" {
		t.Fatalf("the first page is %v", page)
	}
	_, err = b.ctl.DeleteVolume(b.ctx(), &csipb.DeleteVolumeRequest{VolumeId: "b"})
	must(t, err)
	page, err = b.ctl.ListVolumes(b.ctx(), &csipb.ListVolumesRequest{MaxEntries: 2, StartingToken: page.GetNextToken()})
	must(t, err)
	if len(page.GetEntries()) != 1 || page.GetEntries()[0].GetVolume().GetVolumeId() != "c" || page.GetNextToken() != "" {
		t.Errorf("the second page is %v", page)
	}
}

// TestTwoNodes: drivers of two nodes share volumes and a log, and the log says that a volume is in use on both.
func TestTwoNodes(t *testing.T) {
	needMounts(t, Directory)
	a := newBench(t, nil)
	b := newBench(t, func(o *Options) {
		o.Endpoint = filepath.Join(filepath.Dir(o.Dir), "csi.sock")
		o.Dir, o.NodeID = a.o.Dir, "node-2"
	})
	must(t, a.stage(files(writer)))
	must(t, os.WriteFile(filepath.Join(a.path("staging"), "canary"), []byte("alive"), 0o600))
	must(t, a.unstage())
	must(t, b.stage(files(writer)))
	if data, err := os.ReadFile(filepath.Join(b.path("staging"), "canary")); string(data) != "alive" {
		t.Errorf("on the second node the file has %q, %v", data, err)
	}
	if got := calllog.Check(a.readLog().Calls); len(got) != 0 {
		t.Errorf("Check finds %q", got)
	}
	must(t, a.stage(files(writer)))
	if got := calllog.OneNode(b.readLog().Calls); len(got) != 1 {
		t.Errorf("OneNode finds %q; want the second node", got)
	}
	_, err := a.ctl.DeleteVolume(a.ctx(), &csipb.DeleteVolumeRequest{VolumeId: "v"})
	wantCode(t, err, codes.FailedPrecondition)
	must(t, a.unstage())
	must(t, b.unstage())
}

// TestWrongOptions: options that can't be meant are refused.
func TestWrongOptions(t *testing.T) {
	dir := t.TempDir()
	for _, o := range []Options{
		{}, {Dir: dir, Backing: "tape"}, {Dir: dir, Capabilities: []Capability{"VOLUME_CONDITION"}}, {Dir: dir, Volumes: []string{"a=b"}},
	} {
		if d, err := Start(o); err == nil {
			d.Stop()
			t.Errorf("%+v is accepted", o)
		}
	}
}
