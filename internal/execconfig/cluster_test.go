package execconfig

import (
	"crypto/tls"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

func TestSettleCluster(t *testing.T) {
	testAccepted(t, map[string]accepted{
		"a kubeconfig brings the node's API": {
			args: []string{"--kubeconfig=/k"},
			want: func(s *Settings) { s.Kubeconfig, s.EnableServer, s.HealthzPort = "/k", true, 10248 },
		},
		"a kubeconfig, and no API": {
			text: "enableServer: false\nhealthzPort: 0\n", args: []string{"--kubeconfig=/k"},
			want: func(s *Settings) { s.Kubeconfig = "/k" },
		},
		"a port brings the API without a kubeconfig":     {args: []string{"--port=10250"}, want: func(s *Settings) { s.EnableServer = true }},
		"so does an address in the file":                 {text: "address: '::'\n", want: func(s *Settings) { s.EnableServer, s.Address = true, netip.IPv6Unspecified() }},
		"the port of the health is given without either": {text: "healthzPort: 1\n", want: func(s *Settings) { s.HealthzPort = 1 }},
		"the node, by the file": {
			text: "registerNode: false\nregisterWithTaints: [{key: a, effect: NoSchedule}]\nproviderID: cloud://1\npodCIDR: 10.0.0.0/24\n" +
				"nodeStatusUpdateFrequency: 5s\nnodeLeaseDurationSeconds: 60\nnodeStatusMaxImages: -1\nrotateCertificates: true\n" +
				"kubeAPIQPS: 0\nkubeAPIBurst: 7\ncontentType: application/json\nenableControllerAttachDetach: false\n",
			want: func(s *Settings) {
				s.RegisterNode, s.RegisterWithTaints = false, []v1.Taint{{Key: "a", Effect: v1.TaintEffectNoSchedule}}
				s.ProviderID, s.PodCIDR, s.NodeStatusMaxImages, s.RotateCertificates = "cloud://1", "10.0.0.0/24", -1, true
				s.NodeStatusUpdateFrequency, s.NodeStatusReportFrequency, s.NodeLeaseDuration = 5*time.Second, 5*time.Second, time.Minute
				s.KubeAPIQPS, s.KubeAPIBurst, s.ContentType, s.EnableControllerAttachDetach = 0, 7, "application/json", false
			},
		},
		"the node, by flags": {
			text: "registerWithTaints: [{key: z, effect: NoSchedule}]\nnodeStatusReportFrequency: 1m\nproviderID: x\n",
			args: []string{
				"--register-node=false", "--register-with-taints=a=b:NoExecute,c:NoSchedule", "--node-ip=10.0.0.1,fd00::1", "--provider-id=cloud://1",
				"--cloud-provider=external", "--node-status-update-frequency=7s", "--node-status-max-images=3", "--pod-cidr=10.0.0.0/24,fd00::/64",
				"--kubeconfig=/k", "--bootstrap-kubeconfig=/b", "--cert-dir=/c", "--rotate-certificates", "--enable-server=false", "--healthz-port=0",
				"--streaming-connection-idle-timeout=1h", "--enable-controller-attach-detach=false",
			},
			want: func(s *Settings) {
				s.RegisterNode = false
				s.RegisterWithTaints = []v1.Taint{{Key: "a", Value: "b", Effect: v1.TaintEffectNoExecute}, {Key: "c", Effect: v1.TaintEffectNoSchedule}}
				s.NodeIPs, s.ProviderID, s.ExternalCloud = []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}, "cloud://1", true
				s.NodeStatusUpdateFrequency, s.NodeStatusReportFrequency, s.NodeStatusMaxImages = 7*time.Second, time.Minute, 3
				s.StreamingConnectionIdleTimeout, s.EnableControllerAttachDetach = time.Hour, false
				s.PodCIDR, s.Kubeconfig, s.BootstrapKubeconfig, s.CertDir, s.RotateCertificates = "10.0.0.0/24,fd00::/64", "/k", "/b", "/c", true
			},
		},
		"the node's API, by the file": {
			text: "address: 127.0.0.1\nport: 1\nreadOnlyPort: 2\nhealthzPort: 3\nhealthzBindAddress: '::1'\nserverTLSBootstrap: true\n" +
				"tlsCertFile: c.pem\ntlsPrivateKeyFile: /k.pem\ntlsMinVersion: VersionTLS13\n" +
				"tlsCipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]\ntlsCurvePreferences: [29, 23]\n" +
				"authentication: {x509: {clientCAFile: ca.pem}, webhook: {enabled: false, cacheTTL: 1s}, anonymous: {enabled: true}}\n" +
				"authorization: {mode: AlwaysAllow, webhook: {cacheAuthorizedTTL: 2s, cacheUnauthorizedTTL: 3s}}\n" +
				"enableDebuggingHandlers: false\nenableContentionProfiling: true\nenableProfilingHandler: false\nenableDebugFlagsHandler: false\n" +
				"enableSystemLogHandler: true\nenableSystemLogQuery: true\nstreamingConnectionIdleTimeout: 5m\n",
			want: func(s *Settings) {
				s.NodeAPI = NodeAPI{
					EnableServer: true, Address: netip.MustParseAddr("127.0.0.1"), Port: 1, ReadOnlyPort: 2, HealthzPort: 3, HealthzBindAddress: netip.IPv6Loopback(),
					ServerTLSBootstrap: true, TLSCertFile: "/etc/c.pem", TLSPrivateKeyFile: "/k.pem", TLSMinVersion: tls.VersionTLS13,
					TLSCipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}, TLSCurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256},
					Authentication:            Authentication{ClientCAFile: "/etc/ca.pem", WebhookCacheTTL: time.Second, Anonymous: true},
					Authorization:             Authorization{Mode: AuthorizeAlways, CacheAuthorizedTTL: 2 * time.Second, CacheUnauthorizedTTL: 3 * time.Second},
					EnableContentionProfiling: true, EnableSystemLogHandler: true, EnableSystemLogQuery: true, SystemLogDir: "/var/log",
					StreamingConnectionIdleTimeout: 5 * time.Minute,
				}
			},
		},
		"the node's API, by flags": {
			text: "tlsCertFile: c.pem\nport: 1\nauthentication: {x509: {clientCAFile: ca.pem}, webhook: {enabled: false}}\n",
			args: []string{
				"--tls-cert-file=/f.pem", "--tls-private-key-file=/fk.pem", "--port=7", "--client-ca-file=/fca.pem", "--authentication-token-webhook=true",
				"--anonymous-auth", "--authorization-mode=AlwaysAllow", "--rotate-server-certificates", "--streaming-connection-idle-timeout=0s",
			},
			want: func(s *Settings) {
				s.EnableServer, s.Port, s.TLSCertFile, s.TLSPrivateKeyFile, s.ServerTLSBootstrap = true, 7, "/f.pem", "/fk.pem", true
				s.Authentication.ClientCAFile, s.Authentication.Anonymous, s.Authorization.Mode = "/fca.pem", true, AuthorizeAlways
				s.StreamingConnectionIdleTimeout = 0
			},
		},
		"eviction, by the file": {
			text: "evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true\nevictionSoft: {memory.available: 2Gi}\n" +
				"evictionSoftGracePeriod: {memory.available: 90s}\nevictionMinimumReclaim: {imagefs.available: 1%}\n" +
				"evictionPressureTransitionPeriod: 30s\nevictionMaxPodGracePeriod: -1\nkernelMemcgNotification: true\n",
			want: func(s *Settings) {
				s.EvictionHard["memory.available"] = "1Gi"
				s.Eviction = Eviction{
					EvictionSoft: map[string]string{"memory.available": "2Gi"}, EvictionSoftGracePeriod: map[string]time.Duration{"memory.available": 90 * time.Second},
					EvictionMinimumReclaim: map[string]string{"imagefs.available": "1%"}, EvictionPressureTransitionPeriod: 30 * time.Second,
					EvictionMaxPodGracePeriod: -1, KernelMemcgNotification: true,
				}
			},
		},
		"eviction, by flags": {
			text: "evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true\nevictionSoft: {pid.available: 5%}\n",
			args: []string{
				"--eviction-hard=nodefs.available<0%", "--eviction-soft=memory.available<2Gi,nodefs.available<20%",
				"--eviction-soft-grace-period=memory.available=1m,nodefs.available=2m",
			},
			want: func(s *Settings) {
				s.EvictionHard = map[string]string{"nodefs.available": "0%"}
				s.EvictionSoft = map[string]string{"memory.available": "2Gi", "nodefs.available": "20%"}
				s.EvictionSoftGracePeriod = map[string]time.Duration{"memory.available": time.Minute, "nodefs.available": 2 * time.Minute}
			},
		},
	})
}

func TestSettleClusterRefuses(t *testing.T) {
	testRefused(t, []refused{
		{args: []string{"--register-with-taints=a=b"}, want: "--register-with-taints: \"a=b\" isn't a taint"},
		{args: []string{"--register-with-taints=a=b:Never"}, want: "--register-with-taints: \"Never\" isn't an effect"},
		{args: []string{"--register-with-taints==b:NoSchedule"}, want: "a taint's key"},
		{text: "registerWithTaints: [{key: a, value: 'b c', effect: NoSchedule}]\n", want: "/etc/kubelet.yaml:3: registerWithTaints: \"b c\" can't be a taint's value"},
		{text: "registerWithTaints: [{key: a, effect: NoExecute, timeAdded: '2026-01-01T00:00:00Z'}]\n", want: "timeAdded"},
		{args: []string{"--node-ip=here"}, want: "--node-ip: \"here\" isn't an IP address"},
		{args: []string{"--node-ip=10.0.0.1,10.0.0.2"}, want: "two of both families"},
		{args: []string{"--node-ip=10.0.0.1,::"}, want: "can't be the address of a node"},
		{args: []string{"--cloud-provider=aws"}, want: "--cloud-provider"},
		{text: "podCIDR: 10.0.0.0\n", want: "/etc/kubelet.yaml:3: podCIDR"},
		{text: "nodeLeaseDurationSeconds: -1\n", want: "/etc/kubelet.yaml:3: nodeLeaseDurationSeconds: it must be more than zero"},
		{args: []string{"--node-status-update-frequency=0s"}, want: "--node-status-update-frequency"},
		{text: "nodeStatusReportFrequency: -1s\n", want: "nodeStatusReportFrequency"},
		{text: "nodeStatusMaxImages: -2\n", want: "nodeStatusMaxImages"},
		{text: "kubeAPIQPS: -1\n", want: "kubeAPIQPS"},
		{args: []string{"--kube-api-burst=-1"}, want: "--kube-api-burst"},
		{args: []string{"--bootstrap-kubeconfig=/b"}, want: "--bootstrap-kubeconfig: it goes together with --kubeconfig"},
		{text: "address: here\n", want: "/etc/kubelet.yaml:3: address: \"here\" isn't an IP address"},
		{args: []string{"--healthz-bind-address=localhost"}, want: "--healthz-bind-address"},
		{args: []string{"--port=0"}, want: "--port: it is 0; want 1 to 65535"},
		{text: "readOnlyPort: 70000\n", want: "readOnlyPort"},
		{text: "healthzPort: -1\n", want: "healthzPort"},
		{text: "tlsCertFile: /c\n", want: "/etc/kubelet.yaml:3: tlsCertFile: a certificate goes together with its key"},
		{text: "tlsMinVersion: SSL3\n", want: "/etc/kubelet.yaml:3: tlsMinVersion: it is \"SSL3\"; want one of VersionTLS10"},
		{args: []string{"--tls-cipher-suites=ROT13"}, want: "--tls-cipher-suites"},
		{text: "tlsCurvePreferences: [0]\n", want: "tlsCurvePreferences: 0 isn't"},
		{text: "authorization: {mode: Sometimes}\n", want: "/etc/kubelet.yaml:3: authorization.mode: it is \"Sometimes\""},
		{text: "authentication:\n  webhook: {cacheTTL: -1s}\n", want: "/etc/kubelet.yaml:4: authentication.webhook.cacheTTL"},
		{text: "enableSystemLogHandler: false\nenableSystemLogQuery: true\n", want: "/etc/kubelet.yaml:4: enableSystemLogQuery"},
		{text: "evictionHard: {disk.available: 5%}\n", want: "/etc/kubelet.yaml:3: evictionHard: \"disk.available\" is nothing"},
		{text: "evictionHard: {nodefs.available: 101%}\n", want: "evictionHard"},
		{args: []string{"--eviction-soft=memory.available<1Gi"}, want: "--eviction-soft: memory.available has no grace period"},
		{text: "evictionSoftGracePeriod: {memory.available: soon}\n", want: "evictionSoftGracePeriod: memory.available is \"soon\""},
		{args: []string{"--eviction-minimum-reclaim=memory.available=-1Gi"}, want: "--eviction-minimum-reclaim"},
		{text: "evictionPressureTransitionPeriod: -1s\n", want: "evictionPressureTransitionPeriod"},
	})
}

// Thresholds of containerfs are accepted and have no effect, and there is a warning of each.
func TestContainerFsThresholds(t *testing.T) {
	s, err := settle(t, "evictionHard: {containerfs.available: 5%, nodefs.available: 5%}\nevictionMinimumReclaim: {containerfs.inodesFree: 1%}\n",
		"--eviction-soft=containerfs.available<9%", "--eviction-soft-grace-period=containerfs.available=1m")
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	for _, w := range s.Warnings {
		field, _, _ := strings.Cut(w, " has no effect")
		fields = append(fields, field)
	}
	want := []string{"evictionHard: containerfs.available", "evictionSoft: containerfs.available", "evictionMinimumReclaim: containerfs.inodesFree"}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
