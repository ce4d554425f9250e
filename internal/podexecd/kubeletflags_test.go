package podexecd

import (
	"os"
	"strings"
	"testing"
)

// exampleOf has values of flags whose type isn't enough.
var exampleOf = map[string]string{
	"cgroup-driver": "cgroupfs", "container-runtime-endpoint": "/run/containerd/containerd.sock", "cpu-manager-policy": "none",
	"hostname-override": "n1", "image-service-endpoint": "unix:///run/containerd/containerd.sock", "memory-manager-policy": "None",
	"tls-min-version": "VersionTLS12", "topology-manager-policy": "best-effort", "qos-reserved": "", "reserved-memory": "0:memory=1Gi",
	"cgroup-root": "/pods", "manifest-url-header": "a:b", "register-with-taints": "a=b:NoSchedule", "seccomp-default": "true",
	"allowed-unsafe-sysctls": "net.core.somaxconn", "cluster-dns": "10.96.0.10", "enforce-node-allocatable": "pods", "logging-format": "json",
	"tls-cipher-suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "kube-reserved": "cpu=100m", "system-reserved": "memory=100Mi",
	"eviction-hard": "memory.available<100Mi", "eviction-soft": "memory.available<200Mi", "eviction-soft-grace-period": "memory.available=1m",
	"eviction-minimum-reclaim": "memory.available=0Mi", "feature-gates": "ContainerCheckpoint=true", "authorization-mode": "AlwaysAllow",
	"cloud-provider": "external", "container-log-max-size": "10Mi", "image-credential-provider-config": "", "image-credential-provider-bin-dir": "",
	"reserved-cpus": "0", "image-gc-high-threshold": "90", "image-gc-low-threshold": "50", "oom-score-adj": "-999", "config": "", "config-dir": "",
	"container-log-max-files": "5", "port": "10250", "housekeeping-interval": "10s", "kube-reserved-cgroup": "/kube", "system-reserved-cgroup": "/system",
	"cpu-cfs-quota-period": "50ms", "node-ip": "10.0.0.1", "pod-cidr": "10.1.0.0/24", "system-cgroups": "", "tls-cert-file": "", "tls-private-key-file": "", "client-ca-file": "", "kube-api-content-type": "application/json",
}

// exampleOfType is a value of each type of flag that pflag's help names; "" is a boolean flag's.
var exampleOfType = map[string]string{
	"": "true", "Level": "2", "RuntimeDefault": "true", "[]v1.Taint": "", "colonSeparatedMultimapStringString": "", "duration": "1m", "int": "7", "int32": "7",
	"ip": "127.0.0.1", "mapStringBool": "", "mapStringString": "", "pattern=N,...": "a=1", "quantity": "1Mi", "string": "x", "strings": "x",
}

// TestKubeletFlags: podexecd accepts each flag of the kubelet, and empty maps. The list is `kubelet --help`; TestFlags in
// test/cluster/flags checks it.
func TestKubeletFlags(t *testing.T) {
	list, err := os.ReadFile("testdata/kubelet-flags.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(list)), "\n")
	if len(lines) < 140 {
		t.Errorf("the list has %d flags", len(lines))
	}
	for _, line := range lines {
		name, kind, _ := strings.Cut(line, " ")
		value, ok := exampleOf[name]
		if !ok {
			if value, ok = exampleOfType[kind]; !ok {
				t.Fatalf("no example of %s, a %s", name, kind)
			}
		}
		args := []string{"--hostname-override=n1", "--" + name + "=" + value}
		switch name {
		case "cloud-provider", "bootstrap-kubeconfig":
			args = append(args, "--kubeconfig=/k")
		case "eviction-soft":
			args = append(args, "--eviction-soft-grace-period=memory.available=1m")
		case "eviction-soft-grace-period":
			args = append(args, "--eviction-soft=memory.available<1Gi")
		}
		if _, err := parse(args, t.Output()); err != nil {
			t.Errorf("%s: %v", args[1], err)
		}
		if strings.HasPrefix(kind, "map") {
			if _, err := parse([]string{"--hostname-override=n1", "--" + name + "="}, t.Output()); err != nil {
				t.Errorf("--%s=: %v", name, err)
			}
		}
		if underscored := strings.ReplaceAll(name, "-", "_"); kind == "" && underscored != name {
			if _, err := parse([]string{"--hostname-override=n1", "--" + underscored}, t.Output()); err != nil {
				t.Errorf("--%s: %v", underscored, err)
			}
		}
	}
}

// TestKubeletFlagsThatAreRefused: a policy that podexecd doesn't have is an error by its flag, too.
func TestKubeletFlagsThatAreRefused(t *testing.T) {
	for _, arg := range []string{
		"--cpu-manager-policy=static", "--memory-manager-policy=Static", "--topology-manager-policy=restricted", "--no-such-flag=x",
	} {
		name, _, _ := strings.Cut(arg, "=")
		if _, err := parse([]string{"--hostname-override=n1", arg}, t.Output()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v; want an error with the name of the flag", arg, err)
		}
	}
	gated := []string{"--hostname-override=n1", "--feature-gates=QOSReserved=true", "--qos-reserved=memory=50%"}
	if _, err := parse(gated, t.Output()); err == nil || !strings.Contains(err.Error(), "--qos-reserved") {
		t.Errorf("%q: %v; want an error with the name of the flag", gated, err)
	}
	opts, err := parse([]string{"--hostname-override=n1", "--runtime-cgroups=/x", "--pod-manifest-path=/m"}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(opts.settings.Warnings, "\n")
	for _, want := range []string{"--runtime-cgroups has no effect: ", "--pod-manifest-path has no effect: it is a flag of podconfigd"} {
		if !strings.Contains(text, want) {
			t.Errorf("warnings %q; want one with %q", text, want)
		}
	}
}
