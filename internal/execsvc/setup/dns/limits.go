package dns

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The kubelet's limits of resolv.conf. C libraries ignore what exceeds them, and some abort on a domain that is too
// long.
const (
	maxServers      = 3
	maxSearches     = 32
	maxSearchLength = 2048
	maxDomain       = validation.DNS1123SubdomainMaxLength
)

// limit removes what exceeds the limits, with a warning for each kind.
func limit(config *runtimeapi.DNSConfig) []Warning {
	var warnings []Warning
	if len(config.Servers) > maxServers {
		config.Servers = config.Servers[:maxServers]
		warnings = append(warnings, Warning{DNSConfigForming, "Nameserver limits were exceeded, some nameservers have been omitted, " +
			"the applied nameserver line is: " + strings.Join(config.Servers, " ")})
	}
	all := len(config.Searches)
	config.Searches = limitSearches(config.Searches)
	if len(config.Searches) < all {
		warnings = append(warnings, Warning{DNSConfigForming, "Search Line limits were exceeded, some search paths have been omitted, " +
			"the applied search line is: " + strings.Join(config.Searches, " ")})
	}
	return warnings
}

// limitSearches counts long domains before it drops them, as the kubelet does.
func limitSearches(list []string) []string {
	list = slices.DeleteFunc(list[:min(len(list), maxSearches)], func(domain string) bool { return len(domain) > maxDomain })
	for len(strings.Join(list, " ")) > maxSearchLength {
		list = list[:len(list)-1]
	}
	return list
}
