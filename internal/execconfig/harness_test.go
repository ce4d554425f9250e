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
		ImageGC:     ImageGC{HighThreshold: 85, LowThreshold: 80, MinAge: 2 * time.Minute},
		LogRotation: LogRotation{MaxSize: "10Mi", MaxBytes: 10 << 20, MaxFiles: 5, Workers: 1, Interval: 10 * time.Second},
		ImageAccess: ImageAccess{VerificationPolicy: "NeverVerifyPreloadedImages"},
		Node: Node{
			CgroupRoot: "/", CgroupDriver: "cgroupfs", CgroupsPerQOS: true, EnforceNodeAllocatable: []string{"pods"}, PodPidsLimit: -1,
			CPUQuota: true, CPUQuotaPeriod: 100 * time.Millisecond, MaxPods: 110,
			EvictionHard: map[string]string{
				"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%",
				"imagefs.inodesFree": "5%",
			},
			ResolvConf: "/etc/resolv.conf", LocalStorageCapacityIsolation: true, IDsPerPod: 65536,
		},
		Host: Host{TuneKernel: true, FailSwapOn: true, OOMScoreAdj: -999, MaxOpenFiles: 1000000},
		Cluster: Cluster{
			RegisterNode: true, EnableControllerAttachDetach: true, NodeStatusUpdateFrequency: 10 * time.Second, NodeStatusReportFrequency: 5 * time.Minute,
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

// accepted is a file's text and valid flags, and their effect on the defaults.
type accepted struct {
	text string
	args []string
	want func(*Settings)
}

func testAccepted(t *testing.T, rows map[string]accepted) {
	t.Helper()
	for name, tc := range rows {
		t.Run(name, func(t *testing.T) {
			got, err := settle(t, tc.text, tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			want := defaults()
			tc.want(&want)
			slices.Sort(got.Unsupported)
			slices.Sort(want.Unsupported)
			if diff := cmp.Diff(want, *got, cmpopts.EquateComparable(netip.Addr{}), cmpopts.IgnoreUnexported(Settings{}),
				cmpopts.IgnoreFields(Settings{}, "Exceptions")); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			wantEffective(t, got, tc.args)
		})
	}
}

// refused is a file's text and flags that can't be meant, and how the error names them: by the flag, or by file, line and field.
type refused struct {
	text string
	args []string
	want string
}

func testRefused(t *testing.T, rows []refused) {
	t.Helper()
	for _, tc := range rows {
		if got, err := settle(t, tc.text, tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("with %q %q: %+v, %v; want an error with %q", tc.text, tc.args, got, err, tc.want)
		}
	}
}
