package world

import (
	"fmt"
	"strings"

	"github.com/podstream/podstream/test/inside"
)

// nodeResolvConf is a node's DNS configuration. clusterResolvConf is the configuration that pods get with a cluster
// DNS.
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
		events: has("FailedCreatePodSandBox", "is too long (64 characters is the max, 70 characters requested)"),
	},
}

// manyDomains returns n domains, as a list in YAML.
func manyDomains(n int) string {
	var domains []string
	for i := range n {
		domains = append(domains, fmt.Sprintf("d%d.test", i))
	}
	return strings.Join(domains, ", ")
}

// resolves expects the container's resolv.conf to be want.
func resolves(want string) func(*inside.Report) error {
	return func(r *inside.Report) error { return same("resolv.conf", r.Files["/etc/resolv.conf"].Content, want) }
}
