package world

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/inside"
)

// TestNetwork: under which names a pod is known, whom it knows, and what it shares with the node.
func TestNetwork(t *testing.T) {
	runRows(t, slices.Concat(nameRows, hostsRows, sharedRows))
}

// TestDNS: what a pod's resolvers are told, on a node with a cluster's DNS.
func TestDNS(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	check(t, os.WriteFile(file, []byte(nodeResolvConf), 0o644))
	runRowsWith(t, []string{"--resolv-conf=" + file, "--cluster-dns=10.96.0.10", "--cluster-domain=cluster.test"}, dnsRows)
}

// nodeResolvConf is what a node's DNS configuration says, and resolvers are told of a cluster's clusterResolvConf.
const (
	nodeResolvConf    = "search node.test\nnameserver 192.0.2.53\noptions ndots:2 timeout:3\n"
	clusterResolvConf = "search default.svc.cluster.test svc.cluster.test cluster.test node.test\nnameserver 10.96.0.10\noptions ndots:5\n"
)

var resolvConf = []string{"/etc/resolv.conf"}

var dnsRows = []row{
	{name: "dnsPolicy unsaid", spec: `{}`, paths: resolvConf, check: resolves(clusterResolvConf)},
	{name: "dnsPolicy ClusterFirst", spec: `{dnsPolicy: ClusterFirst}`, paths: resolvConf, check: resolves(clusterResolvConf)},
	{name: "dnsPolicy Default", spec: `{dnsPolicy: Default}`, paths: resolvConf, check: resolves(nodeResolvConf)},
	{
		name: "dnsPolicy ClusterFirst in the node's network", spec: `{dnsPolicy: ClusterFirst, hostNetwork: true}`,
		paths: resolvConf, check: resolves(nodeResolvConf),
	},
	{
		name: "dnsPolicy ClusterFirstWithHostNet", spec: `{dnsPolicy: ClusterFirstWithHostNet, hostNetwork: true}`,
		paths: resolvConf, check: resolves(clusterResolvConf),
	},
	{
		name: "dnsPolicy None", spec: `
dnsPolicy: None
dnsConfig: {nameservers: [192.0.2.1], searches: [own.test], options: [{name: ndots, value: "1"}]}`,
		paths: resolvConf, check: resolves("search own.test\nnameserver 192.0.2.1\noptions ndots:1\n"),
	},
	{
		name: "dnsConfig is merged into the node's", spec: `
dnsPolicy: Default
dnsConfig:
  nameservers: [192.0.2.1, 192.0.2.53]
  searches: [own.test, node.test]
  options: [{name: ndots, value: "3"}, {name: rotate}]`,
		paths: resolvConf,
		check: resolves("search node.test own.test\nnameserver 192.0.2.53\nnameserver 192.0.2.1\noptions ndots:3 timeout:3 rotate\n"),
	},
	{
		name: "dnsConfig is merged into the cluster's", spec: `{dnsConfig: {nameservers: [192.0.2.1], searches: [own.test]}}`,
		paths: resolvConf,
		check: resolves("search default.svc.cluster.test svc.cluster.test cluster.test node.test own.test\n" +
			"nameserver 10.96.0.10\nnameserver 192.0.2.1\noptions ndots:5\n"),
	},
	{
		name: "nameservers beyond the limit are left out", spec: `{dnsConfig: {nameservers: [192.0.2.1, 192.0.2.2, 192.0.2.3]}}`,
		paths: resolvConf,
		check: resolves(strings.ReplaceAll(clusterResolvConf, "options", "nameserver 192.0.2.1\nnameserver 192.0.2.2\noptions")),
		events: has("DNSConfigForming", "Nameserver limits were exceeded, some nameservers have been omitted, "+
			"the applied nameserver line is: 10.96.0.10 192.0.2.1 192.0.2.2"),
	},
	{
		name: "searches beyond the limit are left out", spec: `
dnsPolicy: Default
dnsConfig: {searches: [` + manyDomains(32) + `]}`,
		paths:  resolvConf,
		check:  resolves(strings.ReplaceAll(nodeResolvConf, "node.test", "node.test "+strings.ReplaceAll(manyDomains(31), ",", ""))),
		events: has("DNSConfigForming", "Search Line limits were exceeded, some search paths have been omitted"),
	},
	{
		name: "setHostnameAsFQDN", spec: `{hostname: web, subdomain: shop, setHostnameAsFQDN: true}`, paths: hostsFile,
		check: named("web.shop.default.svc.cluster.test", "web.shop.default.svc.cluster.test\tweb"),
	},
	{
		name: "a full name needs a subdomain", spec: `{hostname: web, setHostnameAsFQDN: true}`, paths: hostsFile,
		check: named("web", "web"),
	},
	{
		name: "a full name that is too long", spec: `{hostname: ` + strings.Repeat("w", 40) + `, subdomain: shop, setHostnameAsFQDN: true}`,
		status: waitsFor("main", "ContainerCreating", "is too long (64 characters is the max, 70 characters requested)"),
		events: has("FailedCreatePodSandBox", "is too long (64 characters is the max, 70 characters requested)"),
	},
}

// manyDomains are so many domains, as a list in YAML.
func manyDomains(n int) string {
	var domains []string
	for i := range n {
		domains = append(domains, fmt.Sprintf("d%d.test", i))
	}
	return strings.Join(domains, ", ")
}

// resolves wants the container's resolv.conf to be this.
func resolves(want string) func(*inside.Report) error {
	return func(r *inside.Report) error { return same("resolv.conf", r.Files["/etc/resolv.conf"].Content, want) }
}

var hostsFile = []string{"/etc/hosts"}

var nameRows = []row{
	{
		name: "dnsPolicy ClusterFirst without a cluster", spec: `{}`, paths: resolvConf,
		check: func(r *inside.Report) error {
			text, err := os.ReadFile("/etc/resolv.conf")
			if err != nil {
				return err
			}
			return same("nameservers", nameservers(r.Files["/etc/resolv.conf"].Content), nameservers(string(text)))
		},
	},
	{
		name: "the pod's name is its hostname", spec: `{}`, paths: hostsFile,
		node: func(p *pod, found map[string]*inside.Report) error { return named(p.name, p.name)(found["main"]) },
	},
	{
		name: "a name of more than sixty three characters is no hostname and so it is cut", spec: `{}`, paths: hostsFile,
		node: func(p *pod, found map[string]*inside.Report) error {
			cut := strings.TrimRight(p.name[:63], "-")
			return named(cut, cut)(found["main"])
		},
	},
	{name: "hostname", spec: `{hostname: web}`, paths: hostsFile, check: named("web", "web")},
	{name: "subdomain", spec: `{hostname: web, subdomain: shop}`, paths: hostsFile, check: named("web", "web.shop.default.svc\tweb")},
	{name: "hostnameOverride", spec: `{hostname: web, hostnameOverride: www.example.org}`, paths: hostsFile,
		check: named("www.example.org", "www.example.org")},
	{
		name: "hostname that is none", spec: `{hostname: web.example}`,
		refused: "hostname",
	},
}

// nameservers are those of a resolv.conf.
func nameservers(text string) []string {
	var servers []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "nameserver" {
			servers = append(servers, fields[1])
		}
	}
	return servers
}

// named wants that hostname, and those names for the pod's address.
func named(hostname, names string) func(*inside.Report) error {
	return func(r *inside.Report) error {
		ip, err := address(r)
		if err != nil {
			return err
		}
		return errors.Join(same("hostname", r.Hostname, hostname), same("/etc/hosts", r.Files["/etc/hosts"].Content, ownHosts+ip+"\t"+names+"\n"))
	}
}

// address is that of the pod's own network.
func address(r *inside.Report) (string, error) {
	for _, text := range r.Interfaces["eth0"] {
		if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Addr().Is4() {
			return prefix.Addr().String(), nil
		}
	}
	return "", fmt.Errorf("its interfaces are %v", r.Interfaces)
}

// ownHosts is how the hosts file begins of a pod with a network of its own.
const ownHosts = `# Kubernetes-managed hosts file.
127.0.0.1	localhost
::1	localhost ip6-localhost ip6-loopback
fe00::0	ip6-localnet
fe00::0	ip6-mcastprefix
fe00::1	ip6-allnodes
fe00::2	ip6-allrouters
`

var hostsRows = []row{
	{
		name: "hostAliases", paths: hostsFile, spec: `
hostname: web
hostAliases: [{ip: 192.0.2.7, hostnames: [db.test, db]}, {ip: "2001:db8::1", hostnames: [six.test]}]`,
		check: named("web", "web\n\n# Entries added by HostAliases.\n192.0.2.7\tdb.test\tdb\n2001:db8::1\tsix.test"),
	},
	{
		name: "a container with a hosts file of its own", paths: hostsFile,
		beside: []string{`{apiVersion: v1, kind: ConfigMap, metadata: {name: own-hosts}, data: {hosts: "192.0.2.9 mine\n"}}`},
		spec: `
hostname: web
volumes: [{name: own, configMap: {name: own-hosts}}]
containers:
- {name: main, volumeMounts: [{name: own, mountPath: /etc/hosts, subPath: hosts}]}
- {name: other}`,
		all: func(found map[string]*inside.Report) error {
			return errors.Join(
				same("its own hosts", found["main"].Files["/etc/hosts"].Content, "192.0.2.9 mine\n"),
				named("web", "web")(found["other"]))
		},
	},
	{
		name: "hosts file in the node's network", spec: `{hostNetwork: true, hostAliases: [{ip: 192.0.2.7, hostnames: [db.test]}]}`, paths: hostsFile,
		check: func(r *inside.Report) error {
			text, err := os.ReadFile("/etc/hosts")
			if err != nil {
				return err
			}
			return same("/etc/hosts", r.Files["/etc/hosts"].Content, "# Kubernetes-managed hosts file (host network).\n"+string(text)+
				"\n# Entries added by HostAliases.\n192.0.2.7\tdb.test\n")
		},
	},
}

var sharedRows = []row{
	{
		name: "a pod has its own namespaces, and its containers share some", spec: `{containers: [{name: main}, {name: other}]}`,
		all: func(found map[string]*inside.Report) error {
			one, two := found["main"], found["other"]
			return errors.Join(
				shares(one, ofNode("net", "ipc", "pid", "uts", "mnt"), nil),
				shares(one, two.Namespaces, []string{"ipc", "net", "uts"}),
				same("processes that it sees", len(one.Processes), 1))
		},
	},
	{
		name: "hostNetwork", spec: `{hostNetwork: true}`,
		check: func(r *inside.Report) error {
			name, err := os.Hostname()
			if err != nil {
				return err
			}
			return errors.Join(shares(r, ofNode("net", "ipc", "pid", "uts", "mnt"), []string{"net", "uts"}), same("hostname", r.Hostname, name))
		},
		node: func(p *pod, _ map[string]*inside.Report) error {
			s := p.b.pod(p.name).Status
			return same("its address", s.PodIP, s.HostIP)
		},
	},
	{
		name: "hostPID", spec: `{hostPID: true}`,
		check: func(r *inside.Report) error {
			if len(r.Processes) < 10 || r.Processes[os.Getpid()] == "" {
				return fmt.Errorf("it sees the processes %v", r.Processes)
			}
			return shares(r, ofNode("net", "ipc", "pid", "uts", "mnt"), []string{"pid"})
		},
	},
	{
		name: "hostIPC", spec: `{hostIPC: true}`,
		check: func(r *inside.Report) error {
			return shares(r, ofNode("net", "ipc", "pid", "uts", "mnt"), []string{"ipc"})
		},
	},
	{
		name: "shareProcessNamespace", spec: `{shareProcessNamespace: true, containers: [{name: main}, {name: other}]}`,
		all: func(found map[string]*inside.Report) error {
			// The sandbox's own process is there as well. Which container begins first isn't said.
			if most := max(len(found["main"].Processes), len(found["other"].Processes)); most != 3 {
				return fmt.Errorf("they see %v and %v", found["main"].Processes, found["other"].Processes)
			}
			return errors.Join(
				shares(found["main"], found["other"].Namespaces, []string{"ipc", "net", "pid", "uts"}),
				shares(found["main"], ofNode("pid"), nil))
		},
	},
	{
		name: "the status has the pod's addresses", spec: `{}`,
		node: func(p *pod, found map[string]*inside.Report) error {
			ip, err := address(found["main"])
			if err != nil {
				return err
			}
			s := p.b.pod(p.name).Status
			if len(s.PodIPs) != 1 {
				return fmt.Errorf("its addresses are %v", s.PodIPs)
			}
			return same("its addresses", []string{s.PodIP, s.PodIPs[0].IP}, []string{ip, ip})
		},
	},
	{
		name: "no warning about DNS on a node without a cluster", spec: `{dnsPolicy: ClusterFirst}`,
		events: func(events []*podexecv1.PodEvent) error {
			for _, e := range events {
				switch e.GetReason() {
				case "MissingClusterDNS", "DNSConfigForming":
					return finalError{fmt.Errorf("there is the event %v", e)}
				case "Started":
					return nil
				}
			}
			return errors.New("it hasn't started")
		},
	},
}

// ofNode are the namespaces that this process is in.
func ofNode(kinds ...string) map[string]string {
	namespaces := map[string]string{}
	for _, kind := range kinds {
		// One that can't be read is none that a container is in.
		namespaces[kind], _ = os.Readlink("/proc/self/ns/" + kind)
	}
	return namespaces
}

// shares wants the process to be in these, of the other's namespaces, and in none else but those that no pod has of its own.
func shares(r *inside.Report, others map[string]string, want []string) error {
	var common []string
	for _, kind := range []string{"ipc", "mnt", "net", "pid", "uts"} {
		if others[kind] != "" && others[kind] == r.Namespaces[kind] {
			common = append(common, kind)
		}
	}
	return same("shared namespaces", common, want)
}
