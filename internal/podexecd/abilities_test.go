package podexecd

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/execsvc/decide/declared"
	"github.com/podstream/podstream/internal/execsvc/setup/cgroup"
)

// upgraded is a runtime that is replaced by another version.
type upgraded struct {
	internalapi.RuntimeService
	err     error
	groups  bool
	drivers []error
}

func (u *upgraded) Status(context.Context, bool) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{
		Status:          &runtimeapi.RuntimeStatus{},
		Features:        &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: u.groups},
		RuntimeHandlers: []*runtimeapi.RuntimeHandler{{Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: u.groups}}},
	}, u.err
}

func (u *upgraded) Version(context.Context, string) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{}, u.err
}

func (u *upgraded) RuntimeConfig(context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	if len(u.drivers) == 0 {
		return &runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: runtimeapi.CgroupDriver_SYSTEMD}}, nil
	}
	err := u.drivers[0]
	u.drivers = u.drivers[1:]
	return nil, err
}

// Pods are admitted against what the runtime can do now, not against what it could when podexecd was started.
func TestAbilitiesFollowTheRuntime(t *testing.T) {
	u := &upgraded{}
	opts := &Options{settings: &execconfig.Settings{}}
	runtime := (&connection{runtime: u}).status()
	if err := runtime.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := func(what string, can, silent bool) {
		t.Helper()
		r := new(facts).admission(opts, runtime.Last(), declared.Rules{}).Runtime
		if r.SupplementalGroupsPolicy != can || r.ImageVolumes != can || r.Handlers[""].RecursiveReadOnlyMounts != can || r.Silent != silent {
			t.Errorf("%s: %+v", what, r)
		}
	}
	want("at start", false, false)
	u.groups = true
	runtime.Ask(t.Context())
	want("after the upgrade", true, false)
	u.err = errors.New("no answer")
	runtime.Ask(t.Context())
	want("without an answer", true, true)
}

// The cgroup driver is the runtime's, however late it answers. It is the configuration's only if the runtime doesn't
// report it.
func TestCgroupDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := status.Error(codes.Unavailable, "busy")
		for want, errs := range map[string][]error{
			cgroup.Systemd:  {busy, busy},
			cgroup.Cgroupfs: {busy, status.Error(codes.Unimplemented, "old")},
		} {
			c := &connection{runtime: &upgraded{drivers: errs}}
			if got, err := c.cgroupDriver(t.Context(), cgroup.Cgroupfs, slog.New(slog.DiscardHandler)); got != want || err != nil {
				t.Errorf("%s, %v; want %s", got, err, want)
			}
		}
	})
}

// What keeps podexecd from knowing the cgroup driver is logged, each reason once while it lasts.
func TestCgroupDriverLogsEachReasonOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy, denied := status.Error(codes.Unavailable, "busy"), status.Error(codes.PermissionDenied, "denied")
		c := &connection{runtime: &upgraded{drivers: []error{busy, busy, busy, denied, denied}}}
		var out bytes.Buffer
		if _, err := c.cgroupDriver(t.Context(), cgroup.Cgroupfs, slog.New(slog.NewTextHandler(&out, nil))); err != nil {
			t.Fatal(err)
		}
		for _, reason := range []string{"busy", "denied"} {
			if got := strings.Count(out.String(), reason); got != 1 {
				t.Errorf("%s is logged %d times; want once:\n%s", reason, got, &out)
			}
		}
	})
}

// TestCgroupDriverEnds: podexecd that ends while it asks for the cgroup driver has not failed, and logs nothing of it.
func TestCgroupDriverEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &connection{runtime: &upgraded{drivers: []error{status.Error(codes.Canceled, "context canceled")}}}
	var out bytes.Buffer
	_, err := c.cgroupDriver(ctx, cgroup.Cgroupfs, slog.New(slog.NewTextHandler(&out, nil)))
	if unlessEnded(ctx, err) != nil || out.Len() > 0 {
		t.Errorf("error %v, log %q; want context.Canceled, and nothing in the log", err, &out)
	}
}
