package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The cgroup drivers, by their names in a KubeletConfiguration.
const (
	cgroupfs = "cgroupfs"
	systemd  = "systemd"
)

// runtimeConfig is the part of containerd's configuration, in its verbose status, that decides on the cgroup driver.
type runtimeConfig struct {
	Containerd struct {
		DefaultRuntimeName string
		Runtimes           map[string]struct {
			Options struct{ SystemdCgroup *bool }
		}
	}
}

// handlerDrivers returns the cgroup drivers of containerd's handlers, as far as they have one, and the default handler.
func handlerDrivers(resp *runtimeapi.StatusResponse) (drivers map[string]string, usual string) {
	var config runtimeConfig
	// Other runtimes have other contents; an unreadable one counts as unknown.
	_ = json.Unmarshal([]byte(resp.GetInfo()["config"]), &config)
	drivers = map[string]string{}
	for name, handler := range config.Containerd.Runtimes {
		if option := handler.Options.SystemdCgroup; option != nil && *option {
			drivers[name] = systemd
		} else if option != nil {
			drivers[name] = cgroupfs
		}
	}
	return drivers, config.Containerd.DefaultRuntimeName
}

// driver checks whether podexecd, the runtime's handlers and the init system agree on who makes cgroups.
func (e *examination) driver(ctx context.Context, client runtimeapi.RuntimeServiceClient, resp *runtimeapi.StatusResponse) []Finding {
	if !e.Podexec.Settings.CgroupsPerQOS {
		return nil
	}
	uses, source := cgroupfs, "the runtime reports it"
	config, err := client.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
	switch {
	case status.Code(err) == codes.Unimplemented || err == nil && config.GetLinux() == nil:
		uses, source = e.Podexec.Settings.CgroupDriver, "by --cgroup-driver, as the runtime doesn't report its own"
	case err != nil:
		return []Finding{{"cgroup driver", Failed, fmt.Sprintf("the runtime doesn't say which it uses: %v; podexecd waits for that before it starts pods", err),
			"look at the runtime's log"}}
	case config.GetLinux().GetCgroupDriver() == runtimeapi.CgroupDriver_SYSTEMD:
		uses = systemd
	}
	running := e.exists("run/systemd/system")
	found := Finding{"cgroup driver", OK, fmt.Sprintf("%s (%s)", uses, source), ""}
	reported := err == nil && config.GetLinux() != nil
	switch {
	case uses == systemd && !running:
		found.State, found.Advice = Failed, "set SystemdCgroup = false for the runtime's handlers, and restart the runtime and podexecd"
		if !reported {
			found.Advice = "give podexecd --cgroup-driver=cgroupfs; the runtime's handlers need SystemdCgroup = false too"
		}
		found.Found += ", but systemd doesn't run here: no pod's cgroup can be made"
	case uses == cgroupfs && running:
		found.State, found.Advice = Warning, "drain the node, set SystemdCgroup = true for the runtime's handlers, and restart the runtime and podexecd"
		found.Found += ", but systemd runs here: it doesn't know the pods' cgroups, and may change the limits above them"
	}
	other := differing(uses, resp, reported || !running)
	if other == nil {
		return []Finding{found}
	}
	if found.State == OK && other.State == Failed {
		return []Finding{*other}
	}
	return []Finding{found, *other}
}

// differing returns a finding if handlers have another driver than podexecd uses. fixed is set if podexecd can't use
// another one.
func differing(uses string, resp *runtimeapi.StatusResponse, fixed bool) *Finding {
	drivers, usual := handlerDrivers(resp)
	var others []string
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		if drivers[name] != uses {
			others = append(others, name)
		}
	}
	if len(others) == 0 {
		return nil
	}
	const effect = "containers don't start, or run outside their pod's cgroup and without its limits"
	value := fmt.Sprintf("SystemdCgroup = %t", uses == systemd)
	if !slices.Contains(others, usual) {
		return &Finding{"cgroup driver", Warning,
			fmt.Sprintf("the runtime's handlers %s don't use %s as podexecd does: for pods of their RuntimeClasses, %s", strings.Join(others, ", "), uses, effect),
			"set " + value + " for them in the runtime's configuration, and restart the runtime"}
	}
	advice := "set " + value + " for it in the runtime's configuration, and restart the runtime"
	if !fixed {
		advice = fmt.Sprintf("give podexecd --cgroup-driver=%s, or %s", drivers[usual], advice)
	}
	return &Finding{"cgroup driver", Failed, fmt.Sprintf("the runtime's default handler %s uses %s, and podexecd %s: %s", usual, drivers[usual], uses, effect), advice}
}
