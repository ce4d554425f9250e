package execconfig

import (
	"testing"
	"time"

	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
)

func TestSettle(t *testing.T) {
	testAccepted(t, map[string]accepted{
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
				"localStorageCapacityIsolation: false\nuserNamespaces: {idsPerPod: 131072}\nfailCgroupV1: true\n",
			want: func(s *Settings) {
				s.Node = Node{
					CgroupRoot: "/a", CgroupDriver: "systemd", EnforceNodeAllocatable: []string{"none"}, PodPidsLimit: 9, CPUQuotaPeriod: 5 * time.Millisecond,
					LimitedSwap: true, MemoryThrottlingFactor: 0.5, ReserveMemory: true, SingleProcessOOMKill: true, MaxPods: 7, KubeReserved: map[string]string{"cpu": "100m"},
					SystemReserved: map[string]string{"memory": "1Gi"}, EvictionHard: map[string]string{"memory.available": "5%"},
					ClusterDNS: []string{"10.0.0.10"}, ClusterDomain: "c.local", UnsafeSysctls: []string{"kernel.msg*", "net.core.somaxconn"}, SeccompDefault: true,
					IDsPerPod: 131072, FailCgroupV1: true,
				}
			},
		},
		"the node, by flags": {
			text: "maxPods: 7\nclusterDNS: [10.0.0.10]\ncgroupsPerQOS: true\nkubeReserved: {cpu: 100m}\nfailCgroupV1: true\n",
			args: []string{"--fail-cgroupv1=false", "--max-pods=3", "--cluster-dns=10.0.0.1,fd00::1", "--cgroups-per-qos=false", "--kube-reserved=cpu=1,memory=2Gi", "--node-labels=a=b,c="},
			want: func(s *Settings) {
				s.MaxPods, s.ClusterDNS, s.CgroupsPerQOS, s.EnforceNodeAllocatable = 3, []string{"10.0.0.1", "fd00::1"}, false, []string{"none"}
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
		"shutdown, by the file": {
			text: "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\n",
			want: func(s *Settings) {
				s.Shutdown = Shutdown{ShutdownGracePeriod: 30 * time.Second, ShutdownGracePeriodCriticalPods: 10 * time.Second}
			},
		},
		"shutdown by priority": {
			text: "shutdownGracePeriodByPodPriority: [{priority: 100000, shutdownGracePeriodSeconds: 10}, {priority: 0, shutdownGracePeriodSeconds: 60}]\n",
			want: func(s *Settings) {
				s.ShutdownGracePeriodByPodPriority = []kubeletconfigv1beta1.ShutdownGracePeriodByPodPriority{
					{Priority: 100000, ShutdownGracePeriodSeconds: 10}, {Priority: 0, ShutdownGracePeriodSeconds: 60},
				}
			},
		},
		"access to images": {
			text: "imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: [docker.io/library/nginx, a.io/*]\n",
			want: func(s *Settings) {
				s.ImageAccess = ImageAccess{"NeverVerifyAllowlistedImages", []string{"docker.io/library/nginx", "a.io/*"}}
			},
		},
		"whose fields": {
			text: "staticPodPath: /m\nevictionMaxPodGracePeriod: 7\nrunOnce: true\nhairpinMode: none\n",
			want: func(s *Settings) {
				s.EvictionMaxPodGracePeriod = 7
				s.Podconfigd, s.Ignored = []string{"staticPodPath"}, []string{"runOnce"}
				s.Unsupported = []string{"hairpinMode"}
			},
		},
	})
}

func TestSettleRefuses(t *testing.T) {
	testRefused(t, []refused{
		{args: []string{"--container-runtime-endpoint=run/x.sock"}, want: `--container-runtime-endpoint: it is "run/x.sock"; want unix:///path`},
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
		{text: "imagePullCredentialsVerificationPolicy: Verify\n", want: `/etc/kubelet.yaml:3: imagePullCredentialsVerificationPolicy: it is "Verify"; want NeverVerify, `},
		{text: "preloadedImagesVerificationAllowlist: [a.io/b]\n", want: "/etc/kubelet.yaml:3: preloadedImagesVerificationAllowlist: it needs"},
		{text: "imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: [a*]\n",
			want: `/etc/kubelet.yaml:4: preloadedImagesVerificationAllowlist: invalid pattern: "a*"`},
		{text: "imageMaximumGCAge: -1h\n", want: "imageMaximumGCAge"},
		{text: "shutdownGracePeriod: 500ms\n", want: "/etc/kubelet.yaml:3: shutdownGracePeriod: it is 500ms; want zero, or at least 1s"},
		{text: "shutdownGracePeriod: -1s\n", want: "shutdownGracePeriod: it is -1s"},
		{text: "shutdownGracePeriod: 2s\nshutdownGracePeriodCriticalPods: 1ms\n", want: "shutdownGracePeriodCriticalPods: it is 1ms"},
		{text: "shutdownGracePeriod: 2s\nshutdownGracePeriodCriticalPods: 3s\n", want: "it is 3s, more than shutdownGracePeriod, which is 2s"},
		{text: "shutdownGracePeriodCriticalPods: 3s\n", want: "more than shutdownGracePeriod, which is 0s"},
		{
			text: "shutdownGracePeriod: 2s\nshutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 60}]\n",
			want: "/etc/kubelet.yaml:4: shutdownGracePeriodByPodPriority: it can't be used together with shutdownGracePeriod",
		},
		{text: "shutdownGracePeriodByPodPriority: [{priority: 3, shutdownGracePeriodSeconds: -1}]\n", want: "shutdownGracePeriodSeconds of priority 3 is -1"},
	})
}
