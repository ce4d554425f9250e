package execconfig

import (
	"crypto/tls"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/kubeletconfig"
)

// settle makes the Settings of flags and of one file; an empty text is no file.
func settle(t *testing.T, text string, args ...string) (*Settings, error) {
	t.Helper()
	fs := pflag.NewFlagSet("podexecd", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	var f Flags
	f.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	var files []kubeletconfig.File
	if text != "" {
		files = append(files, kubeletconfig.File{Path: "/etc/kubelet.yaml", Data: []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + text)})
	}
	return f.Settle(files)
}

func defaults() Settings {
	return Settings{
		RuntimeEndpoint: "unix:///run/containerd/containerd.sock", ImageEndpoint: "unix:///run/containerd/containerd.sock",
		PodLogsDir: "/var/log/pods", RequestTimeout: 2 * time.Minute, SyncFrequency: time.Minute,
		Pulls:          Pulls{QPS: 5, Burst: 10},
		RestartBackoff: Backoff{10 * time.Second, 5 * time.Minute}, PullBackoff: Backoff{10 * time.Second, 5 * time.Minute},
		EventQPS: 50, EventBurst: 100, DeadContainers: DeadContainers{MaxPerContainer: 1, MaxDead: -1},
		ImageGC: ImageGC{HighThreshold: 85, LowThreshold: 80, MinAge: 2 * time.Minute},
		Node: Node{
			CgroupRoot: "/", CgroupDriver: "cgroupfs", CgroupsPerQOS: true, EnforceNodeAllocatable: []string{"pods"}, PodPidsLimit: -1,
			CPUQuota: true, CPUQuotaPeriod: 100 * time.Millisecond, MaxPods: 110,
			EvictionHard: map[string]string{
				"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%",
				"imagefs.inodesFree": "5%",
			},
			ResolvConf: "/etc/resolv.conf", LocalStorageCapacityIsolation: true, IDsPerPod: 65536,
		},
		Cluster: Cluster{
			RegisterNode: true, NodeStatusUpdateFrequency: 10 * time.Second, NodeStatusReportFrequency: 5 * time.Minute,
			NodeLeaseDuration: 40 * time.Second, NodeStatusMaxImages: 50,
			KubeAPIQPS: 50, KubeAPIBurst: 100, ContentType: "application/vnd.kubernetes.protobuf",
			NodeAPI: NodeAPI{
				Address: netip.IPv4Unspecified(), Port: 10250, HealthzBindAddress: netip.MustParseAddr("127.0.0.1"), TLSMinVersion: tls.VersionTLS12,
				Authentication:          Authentication{Webhook: true, WebhookCacheTTL: 2 * time.Minute},
				Authorization:           Authorization{Mode: AuthorizeByWebhook, CacheAuthorizedTTL: 5 * time.Minute, CacheUnauthorizedTTL: 30 * time.Second},
				EnableDebuggingHandlers: true, EnableProfilingHandler: true, EnableDebugFlagsHandler: true, EnableSystemLogHandler: true,
				SystemLogDir: "/var/log", StreamingConnectionIdleTimeout: 4 * time.Hour,
			},
			Eviction: Eviction{EvictionPressureTransitionPeriod: 5 * time.Minute},
		},
	}
}

func TestSettle(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		args []string
		want func(*Settings)
	}{
		"nothing said": {want: func(*Settings) {}},
		"the file": {
			text: "containerRuntimeEndpoint: unix:///run/crio.sock\nruntimeRequestTimeout: 3m\nsyncFrequency: 30s\nserializeImagePulls: true\n" +
				"registryPullQPS: 0\nregistryBurst: 3\ncrashLoopBackOff: {maxContainerRestartPeriod: 4s}\neventRecordQPS: 0\npodLogsDir: /logs\n",
			want: func(s *Settings) {
				s.RuntimeEndpoint, s.ImageEndpoint, s.RequestTimeout, s.SyncFrequency = "unix:///run/crio.sock", "unix:///run/crio.sock", 3*time.Minute, 30*time.Second
				s.Pulls = Pulls{Serial: true, Burst: 3}
				s.RestartBackoff, s.EventQPS, s.PodLogsDir = Backoff{4 * time.Second, 4 * time.Second}, 0, "/logs"
			},
		},
		"flags win, also with their zero": {
			text: "serializeImagePulls: true\nregistryPullQPS: 7\nimageServiceEndpoint: unix:///file.sock\ncrashLoopBackOff: {maxContainerRestartPeriod: 4s}\n",
			args: []string{
				"--serialize-image-pulls=false", "--registry-qps=0", "--image-service-endpoint=unix:///flag.sock",
				"--crash-loop-backoff-base=2s", "--crash-loop-backoff-max=8s",
			},
			want: func(s *Settings) {
				s.Pulls.QPS, s.ImageEndpoint, s.RestartBackoff = 0, "unix:///flag.sock", Backoff{2 * time.Second, 8 * time.Second}
			},
		},
		"the node, by the file": {
			text: "cgroupRoot: /a\ncgroupDriver: systemd\ncgroupsPerQOS: false\nenforceNodeAllocatable: []\npodPidsLimit: 9\ncpuCFSQuota: false\n" +
				"cpuCFSQuotaPeriod: 5ms\nmemorySwap: {swapBehavior: LimitedSwap}\nmemoryThrottlingFactor: 0.5\nmemoryReservationPolicy: TieredReservation\nsingleProcessOOMKill: true\nmaxPods: 7\n" +
				"kubeReserved: {cpu: 100m}\nsystemReserved: {memory: 1Gi}\nevictionHard: {memory.available: 5%}\nclusterDNS: [10.0.0.10]\n" +
				"clusterDomain: c.local\nresolvConf: ''\nallowedUnsafeSysctls: [kernel.msg*, net.core.somaxconn]\nseccompDefault: true\n" +
				"localStorageCapacityIsolation: false\nuserNamespaces: {idsPerPod: 131072}\n",
			want: func(s *Settings) {
				s.Node = Node{
					CgroupRoot: "/a", CgroupDriver: "systemd", EnforceNodeAllocatable: []string{"none"}, PodPidsLimit: 9, CPUQuotaPeriod: 5 * time.Millisecond,
					LimitedSwap: true, MemoryThrottlingFactor: 0.5, ReserveMemory: true, SingleProcessOOMKill: true, MaxPods: 7, KubeReserved: map[string]string{"cpu": "100m"},
					SystemReserved: map[string]string{"memory": "1Gi"}, EvictionHard: map[string]string{"memory.available": "5%"},
					ClusterDNS: []string{"10.0.0.10"}, ClusterDomain: "c.local", UnsafeSysctls: []string{"kernel.msg*", "net.core.somaxconn"}, SeccompDefault: true,
					IDsPerPod: 131072,
				}
			},
		},
		"the node, by flags": {
			text: "maxPods: 7\nclusterDNS: [10.0.0.10]\ncgroupsPerQOS: true\nkubeReserved: {cpu: 100m}\n",
			args: []string{"--max-pods=3", "--cluster-dns=10.0.0.1,fd00::1", "--cgroups-per-qos=false", "--kube-reserved=cpu=1,memory=2Gi", "--node-labels=a=b,c="},
			want: func(s *Settings) {
				s.MaxPods, s.ClusterDNS, s.CgroupsPerQOS = 3, []string{"10.0.0.1", "fd00::1"}, false
				s.KubeReserved, s.Labels = map[string]string{"cpu": "1", "memory": "2Gi"}, map[string]string{"a": "b", "c": ""}
			},
		},
		"image collection, by the file": {
			text: "imageGCHighThresholdPercent: 70\nimageGCLowThresholdPercent: 0\nimageMinimumGCAge: 1m\nimageMaximumGCAge: 24h\n",
			want: func(s *Settings) { s.ImageGC = ImageGC{HighThreshold: 70, MinAge: time.Minute, MaxAge: 24 * time.Hour} },
		},
		"image collection, by flags": {
			text: "imageGCHighThresholdPercent: 70\nimageGCLowThresholdPercent: 60\nimageMinimumGCAge: 1m\n",
			args: []string{"--image-gc-high-threshold=100", "--image-gc-low-threshold=99", "--minimum-image-ttl-duration=5s"},
			want: func(s *Settings) { s.ImageGC = ImageGC{HighThreshold: 100, LowThreshold: 99, MinAge: 5 * time.Second} },
		},
		"whose fields": {
			text: "staticPodPath: /m\nevictionMaxPodGracePeriod: 7\nfailSwapOn: false\nrunOnce: true\nhairpinMode: none\n",
			want: func(s *Settings) {
				s.EvictionMaxPodGracePeriod = 7
				s.Podconfigd, s.Ignored = []string{"staticPodPath"}, []string{"runOnce"}
				s.Unsupported = []string{"failSwapOn", "hairpinMode"}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := settle(t, tc.text, tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			want := defaults()
			tc.want(&want)
			slices.Sort(got.Unsupported)
			slices.Sort(want.Unsupported)
			if diff := cmp.Diff(want, *got, cmpopts.EquateComparable(netip.Addr{}), cmpopts.IgnoreUnexported(Settings{})); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			wantEffective(t, got, tc.args)
		})
	}
}

// What can't be meant is named as it was given: by the flag, or by file, line and field.
func TestSettleRefuses(t *testing.T) {
	for _, tc := range []struct {
		text string
		args []string
		want string
	}{
		{args: []string{"--container-runtime-endpoint=/run/x.sock"}, want: `--container-runtime-endpoint: it is "/run/x.sock"; want unix:///path`},
		{text: "containerRuntimeEndpoint: tcp://x\n", want: "/etc/kubelet.yaml"},
		{text: "imageServiceEndpoint: x\n", want: `/etc/kubelet.yaml:3: imageServiceEndpoint: it is "x"`},
		{args: []string{"--crash-loop-backoff-max=1s"}, want: "--crash-loop-backoff-max: it is 1s, less than the first pause of 10s"},
		{args: []string{"--image-pull-backoff-base=0s"}, want: "--image-pull-backoff-base: it must be more than zero"},
		{args: []string{"--serialize-image-pulls", "--max-parallel-image-pulls=3"}, want: "it can't be more than 1"},
		{text: "maxParallelImagePulls: -1\n", want: "maxParallelImagePulls"},
		{args: []string{"--image-credential-provider-config=/x"}, want: "--image-credential-provider-bin-dir"},
		{args: []string{"--maximum-dead-containers-per-container=-1"}, want: "--maximum-dead-containers-per-container: it must not be less than zero"},
		{text: "cgroupDriver: foo\n", want: "cgroupDriver"},
		{args: []string{"--cgroup-driver=foo"}, want: "--cgroup-driver"},
		{args: []string{"--cgroup-root=pods"}, want: "--cgroup-root"},
		{text: "enforceNodeAllocatable: [system-reserved]\n", want: "enforceNodeAllocatable"},
		{args: []string{"--cpu-cfs-quota-period=2s"}, want: "1ms to 1s"},
		{text: "memorySwap: {swapBehavior: Much}\n", want: "memorySwap"},
		{text: "memoryThrottlingFactor: 2\n", want: "memoryThrottlingFactor"},
		{text: "memoryReservationPolicy: Much\n", want: "memoryReservationPolicy"},
		{text: "maxPods: -1\n", want: "maxPods"},
		{text: "kubeReserved: {cpu: much}\n", want: "kubeReserved"},
		{args: []string{"--system-reserved=memory=-1Gi"}, want: "--system-reserved"},
		{text: "evictionHard: {memory.available: little}\n", want: "evictionHard"},
		{args: []string{"--cluster-dns=dns.local"}, want: "--cluster-dns"},
		{text: "allowedUnsafeSysctls: ['*']\n", want: "allowedUnsafeSysctls"},
		{text: "userNamespaces: {idsPerPod: 1000}\n", want: "/etc/kubelet.yaml:3: userNamespaces.idsPerPod: it is 1000"},
		{text: "userNamespaces: {idsPerPod: 4294967296}\n", want: "userNamespaces.idsPerPod"},
		{text: "registryBurst: many\n", want: "registryBurst"},
		{text: "imageGCHighThresholdPercent: 101\n", want: "/etc/kubelet.yaml:3: imageGCHighThresholdPercent: it is 101; want 0 to 100"},
		{text: "imageGCLowThresholdPercent: 85\n", want: "imageGCLowThresholdPercent: it is 85, and must be less than the high threshold of 85"},
		{args: []string{"--image-gc-low-threshold=-1"}, want: "--image-gc-low-threshold: it is -1"},
		{args: []string{"--minimum-image-ttl-duration=-1s"}, want: "--minimum-image-ttl-duration: it must not"},
		{text: "imageMaximumGCAge: 2m\n", want: "imageMaximumGCAge: it is 2m0s; want more than imageMinimumGCAge"},
		{text: "imageMaximumGCAge: -1h\n", want: "imageMaximumGCAge"},
	} {
		if got, err := settle(t, tc.text, tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("with %q %q: %+v, %v; want an error with %q", tc.text, tc.args, got, err, tc.want)
		}
	}
}
