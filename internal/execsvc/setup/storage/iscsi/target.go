package iscsi

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	defaultPort = "3260"
	// maxPortals bounds the portals of a volume.
	maxPortals = 16
	maxLUN     = 255
	// maxIface is open-iscsi's bound of an iface's name, and maxTarget that of a target's.
	maxIface, maxTarget = 64, 223
	// maxName bounds a name in a directory.
	maxName = 255
)

var (
	// targetName is the API server's format of a target's name, without the characters that would make several names of a path.
	targetName = regexp.MustCompile(`^(iqn\.\d{4}-\d{2}\.[[:alnum:].-]+:[[:graph:]]+|eui\.[[:alnum:]]{16}|naa\.[[:alnum:]]{32})$`)
	ifaceName  = regexp.MustCompile(`^[[:alnum:]][[:alnum:]._:@-]*$`)
	fsTypeName = regexp.MustCompile(`^[a-z][a-z0-9]{0,15}$`)
)

// portal returns the host:port of a portal in one way of writing.
func portal(text string) (string, error) {
	wrong := func() error {
		return fmt.Errorf("%.100q can't be an iSCSI portal: it must be an address or a host name, with a port or without", text)
	}
	host, port := text, defaultPort
	if _, err := netip.ParseAddr(strings.Trim(text, "[]")); err != nil {
		if h, p, err := net.SplitHostPort(text); err == nil {
			host, port = h, p
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return "", wrong()
	}
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	if at, err := netip.ParseAddr(host); err == nil {
		if at.Zone() != "" {
			return "", wrong()
		}
		return net.JoinHostPort(at.Unmap().String(), port), nil
	}
	host = strings.ToLower(host)
	if len(validation.IsDNS1123Subdomain(host)) > 0 {
		return "", wrong()
	}
	return host + ":" + port, nil
}

// portals returns the portals of a volume, each once, the target portal first.
func portals(first string, others []string) ([]string, error) {
	if len(others) >= maxPortals {
		return nil, fmt.Errorf("the volume has more than %d iSCSI portals", maxPortals)
	}
	var all []string
	seen := map[string]bool{}
	for _, text := range append([]string{first}, others...) {
		p, err := portal(text)
		if err != nil {
			return nil, err
		}
		if !seen[p] {
			seen[p] = true
			all = append(all, p)
		}
	}
	return all, nil
}

func checkTarget(kind, name string) error {
	if len(name) > maxTarget || !targetName.MatchString(name) || strings.ContainsAny(name, "/,;*&$|\\\"'`?[]<>(){}#") {
		return fmt.Errorf("%.100q can't be %s: it must begin with iqn., eui. or naa., and have no slash", name, kind)
	}
	return nil
}

// errIface is the error of an iface whose name is more than a name.
var errIface = errors.New("it can't be the name of an iface of open-iscsi")

func checkIface(name string) error {
	if len(name) > maxIface || !ifaceName.MatchString(name) || strings.Contains(name, "..") {
		return fmt.Errorf("%.100q: %w", name, errIface)
	}
	return nil
}
