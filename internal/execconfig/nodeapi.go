package execconfig

import (
	"crypto/tls"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podstream/podstream/internal/kubeletconfig"
)

// The modes of authorization.
const (
	AuthorizeByWebhook = string(kubeletconfigv1beta1.KubeletAuthorizationModeWebhook)
	AuthorizeAlways    = string(kubeletconfigv1beta1.KubeletAuthorizationModeAlwaysAllow)
)

// NodeAPI configures the node's API. Access is as in a KubeletConfiguration without these fields, not as with the
// kubelet's flags: anonymous requests, and requests that the API server doesn't allow, are refused.
type NodeAPI struct {
	// EnableServer enables the node API. Its default differs from the kubelet's: true with a Kubeconfig, or if
	// Address or Port are set. ReadOnlyPort serves the public part, without TLS; zero: off.
	EnableServer       bool
	Address            netip.Addr
	Port, ReadOnlyPort int
	// HealthzPort serves podexecd's health on HealthzBindAddress; zero: off. Its default is the kubelet's 10248 with
	// a Kubeconfig, else zero.
	HealthzBindAddress netip.Addr
	HealthzPort        int

	// TLSCertFile and TLSPrivateKeyFile are the serving certificate. Without them the API server signs one if
	// ServerTLSBootstrap, else it is self-signed.
	TLSCertFile, TLSPrivateKeyFile string
	ServerTLSBootstrap             bool
	// TLSMinVersion is as in tls.Config: TLS 1.2. Without TLSCipherSuites or TLSCurvePreferences Go's defaults are
	// used.
	TLSMinVersion       uint16
	TLSCipherSuites     []uint16
	TLSCurvePreferences []tls.CurveID

	Authentication Authentication
	Authorization  Authorization

	// EnableDebuggingHandlers enables logs, exec, attach and port forwarding; profiling, flags and system logs need
	// it too.
	EnableDebuggingHandlers                                                    bool
	EnableContentionProfiling, EnableProfilingHandler, EnableDebugFlagsHandler bool
	// EnableSystemLogHandler serves the files in SystemLogDir, EnableSystemLogQuery the lines of a service in the
	// journal and these files.
	EnableSystemLogHandler, EnableSystemLogQuery bool
	SystemLogDir                                 string
	// StreamingConnectionIdleTimeout is the time after which an idle stream is closed: 4 h.
	StreamingConnectionIdleTimeout time.Duration
}

// Ports returns the ports that are served.
func (n *NodeAPI) Ports() []int {
	var ports []int
	if n.EnableServer {
		ports = append(ports, n.Port)
	}
	for _, port := range []int{n.ReadOnlyPort, n.HealthzPort} {
		if port != 0 {
			ports = append(ports, port)
		}
	}
	return ports
}

// Authentication configures how callers of the node's API are authenticated.
type Authentication struct {
	// ClientCAFile has the CAs of client certificates. Empty: none are accepted.
	ClientCAFile string
	// Webhook has the API server review bearer tokens, and caches the results for WebhookCacheTTL: 2 min.
	Webhook         bool
	WebhookCacheTTL time.Duration
	// Anonymous allows unauthenticated requests, as system:anonymous.
	Anonymous bool
}

// Authorization configures how requests are authorized.
type Authorization struct {
	// Mode is AuthorizeByWebhook (access reviews by the API server) or AuthorizeAlways.
	Mode string
	// CacheAuthorizedTTL and CacheUnauthorizedTTL are how long reviews are cached: 5 min and 30 s.
	CacheAuthorizedTTL, CacheUnauthorizedTTL time.Duration
}

// nodeAPITexts are unparsed settings; check parses them.
type nodeAPITexts struct {
	address, healthzAddress, minVersion string
	cipherSuites                        []string
	curves                              []int32
}

// systemLogDir is the kubelet's directory, too; no flag changes it.
const systemLogDir = "/var/log"

func (n *NodeAPI) addFlags(fs *pflag.FlagSet, texts *nodeAPITexts) {
	fs.BoolVar(&n.EnableServer, "enable-server", false, "serve the node's API; default: with --kubeconfig, --address or --port")
	fs.StringVar(&texts.address, "address", "0.0.0.0", "IP `address` on which the node's API is served; 0.0.0.0 or :: for all")
	fs.IntVar(&n.Port, "port", 10250, "`port` of the node's API")
	fs.IntVar(&n.ReadOnlyPort, "read-only-port", 0, "`port` of the public part of the node's API, without TLS; 0: off")
	fs.IntVar(&n.HealthzPort, "healthz-port", 10248, "`port` of podexecd's health; 0, and the default without --kubeconfig: off")
	fs.StringVar(&texts.healthzAddress, "healthz-bind-address", "127.0.0.1", "IP `address` of --healthz-port")
	shareString(fs, &n.TLSCertFile, "tls-cert-file", "`file` of the certificate of the node's API; default: one that podexecd signs itself")
	shareString(fs, &n.TLSPrivateKeyFile, "tls-private-key-file", "`file` of the key of --tls-cert-file")
	fs.BoolVar(&n.ServerTLSBootstrap, "rotate-server-certificates", false, "request the certificate of the node's API from the API server, and renew it")
	fs.StringVar(&texts.minVersion, "tls-min-version", "", "lowest `version` of TLS: VersionTLS12 (the default), VersionTLS13, ...")
	fs.StringSliceVar(&texts.cipherSuites, "tls-cipher-suites", nil, "`names` of TLS 1.2 cipher suites; default: Go's")
	shareString(fs, &n.Authentication.ClientCAFile, "client-ca-file", "`file` of the CAs whose certificates name who uses the node's API")
	fs.BoolVar(&n.Authentication.Webhook, "authentication-token-webhook", true, "authenticate bearer tokens by the API server")
	fs.DurationVar(&n.Authentication.WebhookCacheTTL, "authentication-token-webhook-cache-ttl", 2*time.Minute, "`time` for which a token's authentication is cached")
	fs.BoolVar(&n.Authentication.Anonymous, "anonymous-auth", false, "allow unauthenticated requests to the node's API, as system:anonymous")
	fs.StringVar(&n.Authorization.Mode, "authorization-mode", AuthorizeByWebhook, "authorization of the node's API: Webhook (by the API server) or AlwaysAllow")
	fs.DurationVar(&n.Authorization.CacheAuthorizedTTL, "authorization-webhook-cache-authorized-ttl", 5*time.Minute, "`time` for which an allowed request is cached")
	fs.DurationVar(&n.Authorization.CacheUnauthorizedTTL, "authorization-webhook-cache-unauthorized-ttl", 30*time.Second, "`time` for which a refused request is cached")
	fs.BoolVar(&n.EnableDebuggingHandlers, "enable-debugging-handlers", true, "serve logs, exec, attach, port forwarding and the like")
	fs.BoolVar(&n.EnableContentionProfiling, "contention-profiling", false, "profile lock contention")
	n.EnableProfilingHandler, n.EnableDebugFlagsHandler, n.EnableSystemLogHandler, n.SystemLogDir = true, true, true, systemLogDir
	fs.DurationVar(&n.StreamingConnectionIdleTimeout, "streaming-connection-idle-timeout", 4*time.Hour, "`time` after which an idle stream is closed; 0: never")
}

// fromFile sets what the file sets and no flag does. kubeconfig reports whether there is one.
func (n *NodeAPI) fromFile(set *pflag.FlagSet, texts *nodeAPITexts, f *kubeletconfigv1beta1.KubeletConfiguration, docs []kubeletconfig.Document, kubeconfig bool) {
	if !set.Changed("enable-server") {
		n.EnableServer = kubeconfig || set.Changed("address") || set.Changed("port") || f.Address != "" || f.Port != 0
	}
	takePointer(set, "enable-server", &n.EnableServer, f.EnableServer)
	take(set, "address", &texts.address, f.Address)
	take(set, "port", &n.Port, int(f.Port))
	take(set, "read-only-port", &n.ReadOnlyPort, int(f.ReadOnlyPort))
	if !kubeconfig && !set.Changed("healthz-port") {
		n.HealthzPort = 0
	}
	takeNumber(set, "healthz-port", &n.HealthzPort, f.HealthzPort)
	take(set, "healthz-bind-address", &texts.healthzAddress, f.HealthzBindAddress)

	for name, setting := range map[string]*string{
		"tls-cert-file": &n.TLSCertFile, "tls-private-key-file": &n.TLSPrivateKeyFile, "client-ca-file": &n.Authentication.ClientCAFile,
	} {
		*setting = set.Lookup(name).Value.String()
	}
	take(set, "tls-cert-file", &n.TLSCertFile, pathIn(docs, "tlsCertFile"))
	take(set, "tls-private-key-file", &n.TLSPrivateKeyFile, pathIn(docs, "tlsPrivateKeyFile"))
	take(set, "rotate-server-certificates", &n.ServerTLSBootstrap, f.ServerTLSBootstrap)
	take(set, "tls-min-version", &texts.minVersion, f.TLSMinVersion)
	takeSlice(set, "tls-cipher-suites", &texts.cipherSuites, f.TLSCipherSuites)
	texts.curves = f.TLSCurvePreferences

	who, what := &f.Authentication, &f.Authorization
	take(set, "client-ca-file", &n.Authentication.ClientCAFile, pathIn(docs, "authentication", "x509", "clientCAFile"))
	takePointer(set, "authentication-token-webhook", &n.Authentication.Webhook, who.Webhook.Enabled)
	take(set, "authentication-token-webhook-cache-ttl", &n.Authentication.WebhookCacheTTL, who.Webhook.CacheTTL.Duration)
	takePointer(set, "anonymous-auth", &n.Authentication.Anonymous, who.Anonymous.Enabled)
	take(set, "authorization-mode", &n.Authorization.Mode, string(what.Mode))
	take(set, "authorization-webhook-cache-authorized-ttl", &n.Authorization.CacheAuthorizedTTL, what.Webhook.CacheAuthorizedTTL.Duration)
	take(set, "authorization-webhook-cache-unauthorized-ttl", &n.Authorization.CacheUnauthorizedTTL, what.Webhook.CacheUnauthorizedTTL.Duration)

	takePointer(set, "enable-debugging-handlers", &n.EnableDebuggingHandlers, f.EnableDebuggingHandlers)
	take(set, "contention-profiling", &n.EnableContentionProfiling, f.EnableContentionProfiling)
	takePointer(set, "", &n.EnableProfilingHandler, f.EnableProfilingHandler)
	takePointer(set, "", &n.EnableDebugFlagsHandler, f.EnableDebugFlagsHandler)
	takePointer(set, "", &n.EnableSystemLogHandler, f.EnableSystemLogHandler)
	takePointer(set, "", &n.EnableSystemLogQuery, f.EnableSystemLogQuery)
	take(set, "streaming-connection-idle-timeout", &n.StreamingConnectionIdleTimeout, f.StreamingConnectionIdleTimeout.Duration)
}

// pathIn returns the path of a field in the last document that has it, relative to the directory of its file, as in
// the kubelet.
func pathIn(docs []kubeletconfig.Document, field ...string) (path string) {
	for _, d := range docs {
		if d.APIVersion != kubeletconfig.APIVersion || d.Kind != kubeletconfig.Kind {
			continue
		}
		var value any = d.Value()
		for _, name := range field {
			fields, _ := value.(map[string]any)
			value = fields[name]
		}
		if text, ok := value.(string); ok {
			path = d.Resolve(text)
		}
	}
	return path
}

// check calls wrong for each invalid setting, and parses flags.
func (n *NodeAPI) check(texts *nodeAPITexts, wrong func(flag, field, reason string)) {
	for _, a := range []struct {
		flag, field, text string
		setting           *netip.Addr
	}{{"address", "address", texts.address, &n.Address}, {"healthz-bind-address", "healthzBindAddress", texts.healthzAddress, &n.HealthzBindAddress}} {
		var err error
		if *a.setting, err = netip.ParseAddr(a.text); err != nil {
			wrong(a.flag, a.field, fmt.Sprintf("%q isn't an IP address", a.text))
		}
	}
	for _, p := range []struct {
		flag, field   string
		value, lowest int
	}{
		{"port", "port", n.Port, 1}, {"read-only-port", "readOnlyPort", n.ReadOnlyPort, 0}, {"healthz-port", "healthzPort", n.HealthzPort, 0},
	} {
		if p.value < p.lowest || p.value > math.MaxUint16 {
			wrong(p.flag, p.field, fmt.Sprintf("it is %d; want %d to %d", p.value, p.lowest, math.MaxUint16))
		}
	}
	if (n.TLSCertFile == "") != (n.TLSPrivateKeyFile == "") {
		wrong("tls-cert-file", "tlsCertFile", "a certificate goes together with its key, --tls-private-key-file or tlsPrivateKeyFile")
	}
	n.checkTLS(texts, wrong)
	if m := n.Authorization.Mode; m != AuthorizeByWebhook && m != AuthorizeAlways {
		wrong("authorization-mode", "authorization.mode", fmt.Sprintf("it is %q; want %s or %s", m, AuthorizeByWebhook, AuthorizeAlways))
	}
	for _, d := range []struct {
		flag, field string
		value       time.Duration
	}{
		{"authentication-token-webhook-cache-ttl", "authentication.webhook.cacheTTL", n.Authentication.WebhookCacheTTL},
		{"authorization-webhook-cache-authorized-ttl", "authorization.webhook.cacheAuthorizedTTL", n.Authorization.CacheAuthorizedTTL},
		{"authorization-webhook-cache-unauthorized-ttl", "authorization.webhook.cacheUnauthorizedTTL", n.Authorization.CacheUnauthorizedTTL},
		{"streaming-connection-idle-timeout", "streamingConnectionIdleTimeout", n.StreamingConnectionIdleTimeout},
	} {
		if d.value < 0 {
			wrong(d.flag, d.field, "it must not be less than zero")
		}
	}
	if n.EnableSystemLogQuery && !n.EnableSystemLogHandler {
		wrong("", "enableSystemLogQuery", "it needs enableSystemLogHandler")
	}
}

// checkTLS parses versions, suites and curves.
func (n *NodeAPI) checkTLS(texts *nodeAPITexts, wrong func(flag, field, reason string)) {
	var err error
	if n.TLSMinVersion, err = cliflag.TLSVersion(texts.minVersion); err != nil {
		wrong("tls-min-version", "tlsMinVersion", fmt.Sprintf("it is %q; want one of %s", texts.minVersion, strings.Join(cliflag.TLSPossibleVersions(), ", ")))
	}
	if n.TLSCipherSuites, err = cliflag.TLSCipherSuites(texts.cipherSuites); err != nil {
		wrong("tls-cipher-suites", "tlsCipherSuites", fmt.Sprintf("%q has one that isn't known; those are %s", texts.cipherSuites,
			strings.Join(cliflag.TLSCipherPossibleValues(), ", ")))
	}
	n.TLSCurvePreferences = nil
	for _, id := range texts.curves {
		if id <= 0 || id > math.MaxUint16 {
			wrong("", "tlsCurvePreferences", fmt.Sprintf("%d isn't the id of a curve", id))
			continue
		}
		n.TLSCurvePreferences = append(n.TLSCurvePreferences, tls.CurveID(id))
	}
}

// shareString adds a flag, unless the flags of every daemon have one of that name, which then means both.
func shareString(fs *pflag.FlagSet, setting *string, name, usage string) {
	if shared := fs.Lookup(name); shared != nil {
		shared.Usage += "; it is the node API's, too"
		return
	}
	fs.StringVar(setting, name, "", usage)
}
