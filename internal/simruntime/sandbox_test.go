package simruntime

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	ready    = runtimeapi.PodSandboxState_SANDBOX_READY
	notReady = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
)

// Pods get consecutive addresses of the pod network, and keep them until they are stopped.
func TestSandboxAddress(t *testing.T) {
	h := start(t, Config{})
	first, _ := h.pod("first")
	second, _ := h.pod("second")
	if ip := h.sandboxStatus(first).GetNetwork().GetIp(); ip != "10.88.0.2" {
		t.Errorf("first address %q", ip)
	}
	if ip := h.sandboxStatus(second).GetNetwork().GetIp(); ip != "10.88.0.3" {
		t.Errorf("second address %q", ip)
	}
	if err := h.runtime.StopPodSandbox(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if s := h.sandboxStatus(first); s.GetState() != notReady || s.GetNetwork().GetIp() != "" {
		t.Errorf("stopped sandbox: %v", s)
	}

	config := podConfig("host")
	config.Linux = &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
	}}
	host, err := h.runtime.RunPodSandbox(t.Context(), config, "runc")
	if err != nil {
		t.Fatal(err)
	}
	s := h.sandboxStatus(host)
	if s.GetNetwork().GetIp() != "" || s.GetLinux().GetNamespaces().GetOptions().GetNetwork() != runtimeapi.NamespaceMode_NODE {
		t.Errorf("sandbox in the host's network: %v", s)
	}
}

// Allocation of addresses starts again at the end of the network, skips addresses in use, and fails when none is free.
func TestAddresses(t *testing.T) {
	a := newAddresses()
	all := make(map[netip.Addr]bool)
	for {
		addr, err := a.take()
		if err != nil {
			break
		}
		if all[addr] || !podNetwork.Contains(addr) {
			t.Fatalf("%v was allocated twice, or is of another network", addr)
		}
		all[addr] = true
	}
	if len(all) != 65533 || all[netip.MustParseAddr("10.88.0.1")] || all[netip.MustParseAddr("10.88.255.255")] {
		t.Errorf("%d addresses, with the bridge's or the broadcast address", len(all))
	}
	freed := netip.MustParseAddr("10.88.7.7")
	a.free(freed)
	if addr, err := a.take(); addr != freed {
		t.Errorf("took %v, %v; only %v is free", addr, err, freed)
	}
}

// The sandbox's status shows its config.
func TestSandboxShowsItsConfig(t *testing.T) {
	h := start(t, Config{})
	config := podConfig("p")
	config.Metadata.Attempt = 3
	config.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	id, err := h.runtime.RunPodSandbox(t.Context(), config, "runc")
	if err != nil {
		t.Fatal(err)
	}
	s := h.sandboxStatus(id)
	if s.GetMetadata().GetUid() != "uid-p" || s.GetMetadata().GetAttempt() != 3 || s.GetAnnotations()["kubernetes.io/config.source"] != "file" ||
		s.GetLabels()["io.kubernetes.pod.name"] != "p" || s.GetRuntimeHandler() != "runc" || s.GetCreatedAt() != h.clock.Now().UnixNano() {
		t.Errorf("status: %v", s)
	}
	if _, err := h.runtime.RunPodSandbox(t.Context(), podConfig("other"), "kata"); err == nil || !strings.Contains(err.Error(), `no runtime for "kata"`) {
		t.Errorf("unknown runtime handler: %v", err)
	}
}

// Stopping a sandbox kills its containers without a grace period. Removing it removes them.
func TestSandboxTakesItsContainersWithIt(t *testing.T) {
	h := start(t, Config{})
	sandbox, pod := h.pod("p")
	runs := h.run(sandbox, pod, containerConfig("runs"))
	done := h.run(sandbox, pod, containerConfig("done", "exit", "0"))
	other := h.sample("other")
	if err := h.runtime.StopPodSandbox(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	h.wantExit(runs, 137, "Error")
	h.wantExit(done, 0, "Completed")
	if err := h.runtime.RemovePodSandbox(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	left, err := h.runtime.ListContainers(t.Context(), nil)
	if err != nil || len(left) != 1 || left[0].GetId() != other {
		t.Errorf("left: %v, %v", left, err)
	}
	// A ready sandbox can be removed too.
	if err := h.runtime.RemovePodSandbox(t.Context(), left[0].GetPodSandboxId()); err != nil {
		t.Error(err)
	}
}

// A name is reserved from the creation of its sandbox or container until the removal, also when it doesn't run.
func TestNamesAreReserved(t *testing.T) {
	h := start(t, Config{})
	config := podConfig("p")
	sandbox, err := h.runtime.RunPodSandbox(t.Context(), config, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.runtime.StopPodSandbox(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	_, err = h.runtime.RunPodSandbox(t.Context(), config, "")
	if err == nil || !strings.Contains(err.Error(), `name "p_default_uid-p_0" is reserved for "`+sandbox+`"`) {
		t.Errorf("second sandbox: %v", err)
	}
	config.Metadata.Attempt = 1
	again, err := h.runtime.RunPodSandbox(t.Context(), config, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.runtime.RemovePodSandbox(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	config.Metadata.Attempt = 0
	if _, err := h.runtime.RunPodSandbox(t.Context(), config, ""); err != nil {
		t.Errorf("after the removal: %v", err)
	}

	id := h.run(again, config, containerConfig("c", "exit", "0"))
	_, err = h.runtime.CreateContainer(t.Context(), again, containerConfig("c"), config)
	if err == nil || !strings.Contains(err.Error(), `name "c_p_default_uid-p_0" is reserved for "`+id+`"`) {
		t.Errorf("second container: %v", err)
	}
	next := containerConfig("c")
	next.Metadata.Attempt = 1
	h.create(again, config, next)
	if err := h.runtime.RemoveContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	h.create(again, config, containerConfig("c"))
}

// The parts of a filter are ANDed. An empty filter selects all.
func TestSandboxFilters(t *testing.T) {
	h := start(t, Config{})
	a, _ := h.pod("a")
	b, _ := h.pod("b")
	if err := h.runtime.StopPodSandbox(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	state := func(s runtimeapi.PodSandboxState) *runtimeapi.PodSandboxStateValue {
		return &runtimeapi.PodSandboxStateValue{State: s}
	}
	labels := func(name string) map[string]string { return map[string]string{"io.kubernetes.pod.name": name} }
	for _, test := range []struct {
		name   string
		filter *runtimeapi.PodSandboxFilter
		want   []string
	}{
		{"none", nil, []string{a, b}},
		{"empty", &runtimeapi.PodSandboxFilter{}, []string{a, b}},
		{"id", &runtimeapi.PodSandboxFilter{Id: a}, []string{a}},
		{"unknown id", &runtimeapi.PodSandboxFilter{Id: "unknown"}, nil},
		{"ready", &runtimeapi.PodSandboxFilter{State: state(ready)}, []string{a}},
		{"not ready", &runtimeapi.PodSandboxFilter{State: state(notReady)}, []string{b}},
		{"label", &runtimeapi.PodSandboxFilter{LabelSelector: labels("b")}, []string{b}},
		{"label of no sandbox", &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"x": ""}}, nil},
		{"label and state", &runtimeapi.PodSandboxFilter{LabelSelector: labels("b"), State: state(ready)}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			list, err := h.runtime.ListPodSandbox(t.Context(), test.filter)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range list {
				got = append(got, s.GetId())
			}
			wantSame(t, got, test.want)
		})
	}
}

func TestContainerFilters(t *testing.T) {
	h := start(t, Config{})
	p, podP := h.pod("p")
	q, podQ := h.pod("q")
	fresh := h.create(p, podP, containerConfig("fresh"))
	runs := h.run(p, podP, containerConfig("runs"))
	done := h.run(q, podQ, containerConfig("done", "exit", "1"))
	state := func(s runtimeapi.ContainerState) *runtimeapi.ContainerStateValue {
		return &runtimeapi.ContainerStateValue{State: s}
	}
	for _, test := range []struct {
		name   string
		filter *runtimeapi.ContainerFilter
		want   []string
	}{
		{"none", nil, []string{fresh, runs, done}},
		{"id", &runtimeapi.ContainerFilter{Id: runs}, []string{runs}},
		{"created", &runtimeapi.ContainerFilter{State: state(created)}, []string{fresh}},
		{"running", &runtimeapi.ContainerFilter{State: state(running)}, []string{runs}},
		{"exited", &runtimeapi.ContainerFilter{State: state(exited)}, []string{done}},
		{"unknown", &runtimeapi.ContainerFilter{State: state(runtimeapi.ContainerState_CONTAINER_UNKNOWN)}, nil},
		{"sandbox", &runtimeapi.ContainerFilter{PodSandboxId: p}, []string{fresh, runs}},
		{"label", &runtimeapi.ContainerFilter{LabelSelector: map[string]string{"io.kubernetes.container.name": "done"}}, []string{done}},
		{"sandbox and state", &runtimeapi.ContainerFilter{PodSandboxId: q, State: state(running)}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			list, err := h.runtime.ListContainers(t.Context(), test.filter)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range list {
				got = append(got, c.GetId())
			}
			wantSame(t, got, test.want)
		})
	}
}

// wantSame compares without regard to the order.
func wantSame(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("got %v, want %v", got, want)
	}
}
