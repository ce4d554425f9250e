package world

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
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
