package execconfig

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/kubeletconfig"
)

// Cluster configures this node as a member of a cluster. Without a Kubeconfig only NodeAPI and Eviction have an
// effect. Names and defaults are the kubelet's, except where noted.
type Cluster struct {
	// RegisterNode creates the Node object if it doesn't exist. RegisterWithTaints are its initial taints.
	RegisterNode       bool
	RegisterWithTaints []v1.Taint
	// EnableControllerAttachDetach has the attach-detach controller attach volumes to this node. If it is false, nothing attaches them.
	EnableControllerAttachDetach bool
	// NodeIPs are the node's addresses: none (they are detected), one, or one of each family. A single unspecified
	// address means that they are detected, of that family first.
	NodeIPs []netip.Addr
	// ProviderID is the cloud's ID of this machine. ExternalCloud leaves the other addresses to the cloud's
	// controller.
	ProviderID    string
	ExternalCloud bool
	// PodCIDR is the pods' address range for the runtime while no Node object has one.
	PodCIDR string

	// NodeStatusUpdateFrequency is the time between two computations of the node's status: 10 s;
	// NodeStatusReportFrequency the time after which an unchanged status is posted: 5 min. NodeLeaseDuration is how
	// long the node counts as alive after each renewal: 40 s.
	NodeStatusUpdateFrequency, NodeStatusReportFrequency, NodeLeaseDuration time.Duration
	// NodeStatusMaxImages is the greatest number of images in the status: 50; -1 means all.
	NodeStatusMaxImages int

	// BootstrapKubeconfig is the kubeconfig that is used to request a first client certificate, while there is no
	// Kubeconfig. Empty: none.
	BootstrapKubeconfig string
	// CertDir has podexecd's certificates. Empty: pki in the root directory.
	CertDir string
	// RotateCertificates renews the client certificate before it expires.
	RotateCertificates bool

	// KubeAPIQPS and KubeAPIBurst limit the requests to the API server: 50 and 100. A rate of zero means no limit.
	KubeAPIQPS   float32
	KubeAPIBurst int
	// ContentType is the encoding of requests: application/vnd.kubernetes.protobuf.
	ContentType string

	NodeAPI
	Eviction
}

// supportedOfCluster are the fields of a KubeletConfiguration that set a Cluster.
var supportedOfCluster = []string{
	"registerNode", "registerWithTaints", "enableControllerAttachDetach", "providerID", "podCIDR", "nodeStatusUpdateFrequency", "nodeStatusReportFrequency", "nodeLeaseDurationSeconds",
	"nodeStatusMaxImages", "rotateCertificates", "kubeAPIQPS", "kubeAPIBurst", "contentType",
	"enableServer", "address", "port", "readOnlyPort", "healthzPort", "healthzBindAddress", "serverTLSBootstrap", "tlsCertFile", "tlsPrivateKeyFile",
	"tlsMinVersion", "tlsCipherSuites", "tlsCurvePreferences", "authentication", "authorization", "enableDebuggingHandlers",
	"enableContentionProfiling", "enableProfilingHandler", "enableDebugFlagsHandler", "enableSystemLogHandler", "enableSystemLogQuery",
	"streamingConnectionIdleTimeout",
	"evictionSoft", "evictionSoftGracePeriod", "evictionPressureTransitionPeriod", "evictionMaxPodGracePeriod", "evictionMinimumReclaim",
	"mergeDefaultEvictionSettings", "kernelMemcgNotification",
}

// clusterTexts are unparsed settings; check parses them.
type clusterTexts struct {
	taints, nodeIPs []string
	cloudProvider   string
	leaseSeconds    int
	api             nodeAPITexts
	eviction        evictionTexts
}

func (c *Cluster) addFlags(fs *pflag.FlagSet, texts *clusterTexts) {
	fs.BoolVar(&c.RegisterNode, "register-node", true, "create the Node object if it doesn't exist")
	fs.StringSliceVar(&texts.taints, "register-with-taints", nil, "initial `taints` of the Node object: key=value:effect")
	fs.BoolVar(&c.EnableControllerAttachDetach, "enable-controller-attach-detach", true,
		"have a controller attach volumes to this node; false: volumes that must be attached fail")
	fs.StringSliceVar(&texts.nodeIPs, "node-ip", nil, "`address` of this node, or two of both families; default: that of the default route")
	fs.StringVar(&c.ProviderID, "provider-id", "", "`name` of this machine in its cloud")
	fs.StringVar(&c.PodCIDR, "pod-cidr", "", "`range` of the pods' addresses for the runtime, while no Node object has one")
	fs.StringVar(&texts.cloudProvider, "cloud-provider", "", "external, if a cloud controller completes the Node object; else empty")
	fs.DurationVar(&c.NodeStatusUpdateFrequency, "node-status-update-frequency", 10*time.Second, "`time` between two computations of the node's status")
	c.NodeStatusReportFrequency = 5 * time.Minute
	texts.leaseSeconds = 40
	fs.IntVar(&c.NodeStatusMaxImages, "node-status-max-images", 50, "`number` of images in the node's status; -1: all")
	fs.StringVar(&c.BootstrapKubeconfig, "bootstrap-kubeconfig", "",
		"kubeconfig `file` to request a client certificate with, if --kubeconfig doesn't exist; that is written then")
	fs.StringVar(&c.CertDir, "cert-dir", "", "`directory` of podexecd's certificates; default: pki in --root-dir")
	fs.BoolVar(&c.RotateCertificates, "rotate-certificates", false, "renew the client certificate before it expires")
	fs.Float32Var(&c.KubeAPIQPS, "kube-api-qps", 50, "`number` of requests to the API server per second, on average; 0: no limit")
	fs.IntVar(&c.KubeAPIBurst, "kube-api-burst", 100, "`number` of requests at once, within --kube-api-qps")
	fs.StringVar(&c.ContentType, "kube-api-content-type", "application/vnd.kubernetes.protobuf", "content `type` of requests to the API server")
	c.NodeAPI.addFlags(fs, &texts.api)
	c.Eviction.addFlags(fs, &texts.eviction)
}

// fromFile sets what the file sets and no flag does, and keeps flags that check has to parse. kubeconfig reports
// whether there is one.
func (c *Cluster) fromFile(set *pflag.FlagSet, file *kubeletconfig.Config, docs []kubeletconfig.Document, texts *clusterTexts, kubeconfig bool) {
	f := &file.KubeletConfiguration
	takePointer(set, "register-node", &c.RegisterNode, f.RegisterNode)
	takeSlice(set, "register-with-taints", &c.RegisterWithTaints, f.RegisterWithTaints)
	takePointer(set, "enable-controller-attach-detach", &c.EnableControllerAttachDetach, f.EnableControllerAttachDetach)
	take(set, "provider-id", &c.ProviderID, f.ProviderID)
	c.ExternalCloud = texts.cloudProvider == externalCloud
	take(set, "pod-cidr", &c.PodCIDR, f.PodCIDR)
	// The kubelet's rule for files: if only the update frequency is set, it is the report frequency too.
	take(set, "", &c.NodeStatusReportFrequency, f.NodeStatusUpdateFrequency.Duration)
	take(set, "", &c.NodeStatusReportFrequency, f.NodeStatusReportFrequency.Duration)
	take(set, "node-status-update-frequency", &c.NodeStatusUpdateFrequency, f.NodeStatusUpdateFrequency.Duration)
	take(set, "", &texts.leaseSeconds, int(f.NodeLeaseDurationSeconds))
	c.NodeLeaseDuration = time.Duration(texts.leaseSeconds) * time.Second
	takeNumber(set, "node-status-max-images", &c.NodeStatusMaxImages, f.NodeStatusMaxImages)
	take(set, "rotate-certificates", &c.RotateCertificates, f.RotateCertificates)
	takeNumber(set, "kube-api-qps", &c.KubeAPIQPS, f.KubeAPIQPS)
	take(set, "kube-api-burst", &c.KubeAPIBurst, int(f.KubeAPIBurst))
	take(set, "kube-api-content-type", &c.ContentType, f.ContentType)
	c.NodeAPI.fromFile(set, &texts.api, f, docs, kubeconfig)
	c.Eviction.fromFile(set, &texts.eviction, f)
}

// takeNumber is takePointer for fields whose type differs from their setting's.
func takeNumber[T int | float32](set *pflag.FlagSet, flag string, setting *T, value *int32) {
	if value != nil && !set.Changed(flag) {
		*setting = T(*value)
	}
}

// externalCloud is the only value of --cloud-provider with an effect.
const externalCloud = "external"

// check calls wrong for each invalid setting, and parses flags.
func (c *Cluster) check(texts *clusterTexts, kubeconfig string, wrong func(flag, field, reason string)) {
	for _, text := range texts.taints {
		taint, err := parseTaint(text)
		if err != nil {
			wrong("register-with-taints", "", err.Error())
			continue
		}
		c.RegisterWithTaints = append(c.RegisterWithTaints, taint)
	}
	for i := range c.RegisterWithTaints {
		if err := checkTaint(&c.RegisterWithTaints[i]); err != nil {
			wrong("register-with-taints", "registerWithTaints", err.Error())
		}
	}
	var err error
	if c.NodeIPs, err = parseNodeIPs(texts.nodeIPs); err != nil {
		wrong("node-ip", "", err.Error())
	}
	if p := texts.cloudProvider; p != "" && p != externalCloud {
		wrong("cloud-provider", "", fmt.Sprintf("it is %q; want %s, or nothing", p, externalCloud))
	}
	if c.PodCIDR != "" {
		for cidr := range strings.SplitSeq(c.PodCIDR, ",") {
			if _, err := netip.ParsePrefix(cidr); err != nil {
				wrong("pod-cidr", "podCIDR", fmt.Sprintf("it is %q; want a range of addresses, or one of each family with a comma between", c.PodCIDR))
				break
			}
		}
	}
	for _, d := range []struct {
		flag, field string
		value       time.Duration
	}{
		{"node-status-update-frequency", "nodeStatusUpdateFrequency", c.NodeStatusUpdateFrequency},
		{"", "nodeStatusReportFrequency", c.NodeStatusReportFrequency}, {"", "nodeLeaseDurationSeconds", c.NodeLeaseDuration},
	} {
		if d.value <= 0 {
			wrong(d.flag, d.field, "it must be more than zero")
		}
	}
	if c.NodeStatusMaxImages < -1 {
		wrong("node-status-max-images", "nodeStatusMaxImages", "it must not be less than -1")
	}
	if c.KubeAPIQPS < 0 {
		wrong("kube-api-qps", "kubeAPIQPS", "it must not be less than zero")
	}
	if c.KubeAPIBurst < 0 {
		wrong("kube-api-burst", "kubeAPIBurst", "it must not be less than zero")
	}
	if c.BootstrapKubeconfig != "" && kubeconfig == "" {
		wrong("bootstrap-kubeconfig", "", "it goes together with --kubeconfig, the file that is written then")
	}
	c.NodeAPI.check(&texts.api, wrong)
	c.Eviction.check(&texts.eviction, wrong)
}

// parseNodeIPs returns none, one, or one address of each family.
func parseNodeIPs(texts []string) ([]netip.Addr, error) {
	var ips []netip.Addr
	for _, text := range texts {
		ip, err := netip.ParseAddr(strings.TrimSpace(text))
		if err != nil || ip.Zone() != "" {
			return nil, fmt.Errorf("%q isn't an IP address", text)
		}
		if ip = ip.Unmap(); ip.IsMulticast() || ip.IsUnspecified() && len(texts) > 1 {
			return nil, fmt.Errorf("%v can't be the address of a node", ip)
		}
		ips = append(ips, ip)
	}
	if len(ips) > 2 || len(ips) == 2 && ips[0].Is4() == ips[1].Is4() {
		return nil, fmt.Errorf("%v: want one address, or two of both families", ips)
	}
	return ips, nil
}
