package validate

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The limits of resolv.conf, as the API server has them.
const (
	maxNameservers  = 3
	maxSearches     = 32
	maxSearchLength = 2048
	// maxHostname is the kernel's limit.
	maxHostname = 64
)

// validateNetwork checks the pod's names and its DNS.
func validateNetwork(spec *v1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.Hostname != "" {
		errs = append(errs, invalid(path.Child("hostname"), spec.Hostname, validation.IsDNS1123Label(spec.Hostname))...)
	}
	if spec.Subdomain != "" {
		errs = append(errs, invalid(path.Child("subdomain"), spec.Subdomain, validation.IsDNS1123Label(spec.Subdomain))...)
	}
	if name := spec.HostnameOverride; name != nil {
		at := path.Child("hostnameOverride")
		errs = append(errs, invalid(at, *name, validation.IsDNS1123Subdomain(*name))...)
		if len(*name) > maxHostname {
			errs = append(errs, field.TooLong(at, *name, maxHostname))
		}
		if spec.SetHostnameAsFQDN != nil && *spec.SetHostnameAsFQDN {
			errs = append(errs, field.Forbidden(at, "excludes setHostnameAsFQDN"))
		}
		if spec.HostNetwork {
			errs = append(errs, field.Forbidden(at, "a pod with hostNetwork has the node's name"))
		}
	}
	for i, alias := range spec.HostAliases {
		at := path.Child("hostAliases").Index(i)
		errs = append(errs, validation.IsValidIPForLegacyField(at.Child("ip"), alias.IP, false, nil)...)
		for j, name := range alias.Hostnames {
			errs = append(errs, invalid(at.Child("hostnames").Index(j), name, validation.IsDNS1123Subdomain(name))...)
		}
	}
	return append(errs, validateDNS(spec, path)...)
}

func validateDNS(spec *v1.PodSpec, path *field.Path) field.ErrorList {
	errs := oneOf(path.Child("dnsPolicy"), spec.DNSPolicy,
		v1.DNSClusterFirst, v1.DNSClusterFirstWithHostNet, v1.DNSDefault, v1.DNSNone)
	config := spec.DNSConfig
	path = path.Child("dnsConfig")
	if config == nil {
		if spec.DNSPolicy == v1.DNSNone {
			errs = append(errs, field.Required(path, "dnsPolicy None needs nameservers"))
		}
		return errs
	}
	at := path.Child("nameservers")
	if spec.DNSPolicy == v1.DNSNone && len(config.Nameservers) == 0 {
		errs = append(errs, field.Required(at, "dnsPolicy None needs nameservers"))
	}
	if len(config.Nameservers) > maxNameservers {
		errs = append(errs, field.TooMany(at, len(config.Nameservers), maxNameservers))
	}
	for i, ip := range config.Nameservers {
		errs = append(errs, validation.IsValidIPForLegacyField(at.Index(i), ip, false, nil)...)
	}
	at = path.Child("searches")
	if len(config.Searches) > maxSearches {
		errs = append(errs, field.TooMany(at, len(config.Searches), maxSearches))
	}
	if all := strings.Join(config.Searches, " "); len(all) > maxSearchLength {
		errs = append(errs, field.TooLong(at, all, maxSearchLength))
	}
	for i, domain := range config.Searches {
		if domain != "." {
			errs = append(errs, invalid(at.Index(i), domain, validation.IsDNS1123SubdomainWithUnderscore(strings.TrimSuffix(domain, ".")))...)
		}
	}
	for i, option := range config.Options {
		errs = append(errs, required(path.Child("options").Index(i).Child("name"), option.Name)...)
	}
	return errs
}

func validateTolerations(tolerations []v1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, t := range tolerations {
		at := path.Index(i)
		if t.Key != "" {
			errs = append(errs, metavalidation.ValidateLabelName(t.Key, at.Child("key"))...)
		} else if t.Operator != v1.TolerationOpExists {
			errs = append(errs, field.Invalid(at.Child("operator"), t.Operator, "must be Exists where there is no key"))
		}
		switch t.Operator {
		case v1.TolerationOpExists:
			if t.Value != "" {
				errs = append(errs, field.Invalid(at.Child("value"), t.Value, "must be empty where the operator is Exists"))
			}
		case v1.TolerationOpEqual, "":
			errs = append(errs, invalid(at.Child("value"), t.Value, validation.IsValidLabelValue(t.Value))...)
		default:
			errs = append(errs, oneOf(at.Child("operator"), t.Operator, v1.TolerationOpEqual, v1.TolerationOpExists)...)
		}
		if t.Effect != "" {
			errs = append(errs, oneOf(at.Child("effect"), t.Effect,
				v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute)...)
		}
		if t.TolerationSeconds != nil && t.Effect != v1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(at.Child("effect"), t.Effect, "must be NoExecute where there are tolerationSeconds"))
		}
	}
	return errs
}
