package dns

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	utilio "k8s.io/utils/io"

	"github.com/podstream/podstream/internal/openfile"
)

// maxFile is the size above which a resolv.conf is rejected.
const maxFile = 10 << 20

// readFile reads a resolv.conf.
func readFile(path string) (*runtimeapi.DNSConfig, error) {
	file, err := openfile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the node's DNS configuration: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := utilio.ReadAtMost(file, maxFile)
	if err != nil {
		return nil, fmt.Errorf("read the node's DNS configuration: %s: %w", path, err)
	}
	config, err := parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("parse the node's DNS configuration: %s: %w", path, err)
	}
	return config, nil
}

// parse parses the text of a resolv.conf. Nameservers and options accumulate over the lines; the last search line
// counts. Other directives (domain, sortlist) are ignored, as in the kubelet. Servers aren't validated: they may have
// zones.
func parse(text string) (*runtimeapi.DNSConfig, error) {
	config := &runtimeapi.DNSConfig{}
	var found options
	var errs []error
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			if len(fields) == 1 {
				errs = append(errs, fmt.Errorf("line %d: nameserver has no address", number))
				continue
			}
			config.Servers = append(config.Servers, fields[1])
		case "search":
			config.Searches = searches(fields[1:])
		case "options":
			for _, o := range fields[1:] {
				found.set(o)
			}
		default: // a comment, or another directive
			continue
		}
		// A CRI message can't carry it.
		if !utf8.ValidString(line) {
			errs = append(errs, fmt.Errorf("line %d: not UTF-8", number))
		}
	}
	config.Options = found.list
	return config, errors.Join(errs...)
}

// searches normalizes domains for comparison and counting: it drops trailing dots and the root domain, which is
// searched anyway.
func searches(domains []string) []string {
	var list []string
	for _, d := range domains {
		if d != "." {
			list = append(list, strings.TrimSuffix(d, "."))
		}
	}
	return list
}

// options are resolver options, such as ndots:5 or rotate, in the order in which their names appeared first.
type options struct {
	list []string
	at   map[string]int
}

// set adds an option, or replaces the one with the same name.
func (o *options) set(option string) {
	name, _, _ := strings.Cut(option, ":")
	if i, ok := o.at[name]; ok {
		o.list[i] = option
		return
	}
	if o.at == nil {
		o.at = map[string]int{}
	}
	o.at[name] = len(o.list)
	o.list = append(o.list, option)
}
