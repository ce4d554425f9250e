package world

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/inside"
)

// TestNetwork: the names of a pod, the names that it can resolve, and the namespaces that it shares with the node.
func TestNetwork(t *testing.T) {
	t.Parallel()
	runRows(t, containerds, slices.Concat(nameRows, hostsRows, sharedRows))
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

// nameservers returns the name servers in a resolv.conf.
func nameservers(text string) []string {
	var servers []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "nameserver" {
			servers = append(servers, fields[1])
		}
	}
	return servers
}

// named expects the hostname, the names for each of the pod's addresses, and then the lines of hostAliases.
func named(hostname, names string, aliases ...string) func(*inside.Report) error {
	return func(r *inside.Report) error {
		ips, err := addresses(r)
		if err != nil {
			return err
		}
		hosts := ownHosts
		for _, ip := range ips {
			hosts += ip + "\t" + names + "\n"
		}
		if len(aliases) > 0 {
			hosts += "\n# Entries added by HostAliases.\n" + strings.Join(aliases, "\n") + "\n"
		}
		return errors.Join(same("hostname", r.Hostname, hostname), same("/etc/hosts", r.Files["/etc/hosts"].Content, hosts))
	}
}

// addresses returns the addresses in the pod's own network, first the IPv4 address.
func addresses(r *inside.Report) ([]string, error) {
	var v4, v6 []string
	for _, text := range r.Interfaces["eth0"] {
		prefix, err := netip.ParsePrefix(text)
		switch ip := prefix.Addr(); {
		case err != nil:
			return nil, err
		case ip.Is4():
			v4 = append(v4, ip.String())
		case !ip.IsLinkLocalUnicast():
			v6 = append(v6, ip.String())
		}
	}
	if len(v4) != 1 || len(v6) != 1 {
		return nil, fmt.Errorf("its interfaces are %v", r.Interfaces)
	}
	return append(v4, v6...), nil
}

// ownHosts is the start of the hosts file of a pod with its own network.
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
		check: named("web", "web", "192.0.2.7\tdb.test\tdb", "2001:db8::1\tsix.test"),
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
		node: sharesWithNode(),
		all: func(found map[string]*inside.Report) error {
			one, two := found["main"], found["other"]
			return errors.Join(
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
			return same("hostname", r.Hostname, name)
		},
		node: func(p *pod, found map[string]*inside.Report) error {
			s := p.b.pod(p.name).Status
			return errors.Join(sharesWithNode("net", "uts")(p, found),
				same("its addresses", []string{s.PodIP, s.HostIP}, []string{devnode.NodeIPs[0].String(), devnode.NodeIPs[0].String()}))
		},
	},
	{
		name: "hostPID", spec: `{hostPID: true}`,
		check: func(r *inside.Report) error {
			if len(r.Processes) < 10 || r.Processes[os.Getpid()] == "" {
				return fmt.Errorf("it sees the processes %v", r.Processes)
			}
			return nil
		},
		node: sharesWithNode("pid"),
	},
	{
		name: "hostIPC", spec: `{hostIPC: true}`,
		node: sharesWithNode("ipc"),
	},
	{
		name: "shareProcessNamespace", spec: `{shareProcessNamespace: true, containers: [{name: main}, {name: other}]}`,
		all: func(found map[string]*inside.Report) error {
			// The sandbox's process is in the list too. The order in which the containers start isn't defined.
			if most := max(len(found["main"].Processes), len(found["other"].Processes)); most != 3 {
				return fmt.Errorf("they see %v and %v", found["main"].Processes, found["other"].Processes)
			}
			return shares(found["main"], found["other"].Namespaces, []string{"ipc", "net", "pid", "uts"})
		},
		node: sharesWithNode(),
	},
	{
		name: "a pod has an address of IPv4 and one of IPv6", paths: hostsFile, check: named("web", "web"), spec: `
hostname: web
containers: [{name: main, env: [{name: POD_IPS, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}]}]`,
		node: func(p *pod, found map[string]*inside.Report) error {
			ips, err := addresses(found["main"])
			if err != nil {
				return err
			}
			s := p.b.pod(p.name).Status
			return errors.Join(
				same("its addresses", s.PodIPs, []v1.PodIP{{IP: ips[0]}, {IP: ips[1]}}), same("the first", s.PodIP, ips[0]),
				env(map[string]string{"POD_IPS": ips[0] + "," + ips[1]})(found["main"]))
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

// namespaceKinds are the namespaces that each container has by default.
var namespaceKinds = []string{"ipc", "mnt", "net", "pid", "uts"}

// sharesWithNode expects container main to be in exactly these namespaces of the node, which podexecd is in.
func sharesWithNode(want ...string) func(*pod, map[string]*inside.Report) error {
	return func(p *pod, found map[string]*inside.Report) error {
		node := map[string]string{}
		for _, kind := range namespaceKinds {
			var err error
			if node[kind], err = os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", p.b.Podexecd.Pid(), kind)); err != nil {
				return err
			}
		}
		return shares(found["main"], node, want)
	}
}

// shares expects the process to be in exactly these of the other's namespaces.
func shares(r *inside.Report, others map[string]string, want []string) error {
	var common []string
	for _, kind := range namespaceKinds {
		if others[kind] != "" && others[kind] == r.Namespaces[kind] {
			common = append(common, kind)
		}
	}
	return same("shared namespaces", common, want)
}
