package kubeletapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// component is the name of this component on its pages: monitoring expects the kubelet.
const component = "kubelet"

// Pages configures /statusz and /flagz, pages in the formats of k8s.io/apiserver.
type Pages struct {
	// Version is the version in /statusz, without "v". Emulation is the version of the Kubernetes API. An empty Version:
	// no such page.
	Version, Emulation string
	// Flags returns the flags with their values, for /flagz. Secret values must be left out. Nil: no such page.
	Flags func() map[string]string
}

// document is the structured form of a page: the kinds Statusz and Flagz of config.k8s.io.
type document struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	*statusz          `json:",inline"`
	Flags             map[string]string `json:"flags,omitempty"`
}

type statusz struct {
	StartTime        metav1.Time `json:"startTime"`
	UptimeSeconds    int64       `json:"uptimeSeconds"`
	GoVersion        string      `json:"goVersion"`
	BinaryVersion    string      `json:"binaryVersion"`
	EmulationVersion string      `json:"emulationVersion,omitempty"`
	Paths            []string    `json:"paths"`
}

// addPages adds the pages to the routes. It comes last: /statusz lists the paths.
func (s *Server) addPages(rs *routes) {
	if s.cfg.Pages.Flags != nil {
		rs.exact["/flagz"] = &route{methods: onlyGet, handler: s.page("Flagz", s.flagz)}
	}
	if s.cfg.Pages.Version != "" {
		paths := rs.first()
		rs.exact["/statusz"] = &route{methods: onlyGet, handler: s.page("Statusz", func() (document, string) { return s.statusz(paths) })}
	}
}

// first returns the first elements of all paths, sorted.
func (rs *routes) first() []string {
	seen := map[string]bool{}
	for _, paths := range []map[string]*route{rs.exact, rs.trees} {
		for path := range paths {
			first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
			seen["/"+first] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

func (s *Server) statusz(paths []string) (document, string) {
	up := int64(time.Since(s.started).Seconds())
	d := statusz{
		StartTime: metav1.NewTime(s.started), UptimeSeconds: up, GoVersion: runtime.Version(),
		BinaryVersion: s.cfg.Pages.Version, EmulationVersion: s.cfg.Pages.Emulation, Paths: paths,
	}
	text := fmt.Sprintf("Started: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\nEmulation version: %s\nPaths: %s\n",
		s.started.Format(time.UnixDate), up/3600, up/60%60, up%60, d.GoVersion, d.BinaryVersion, d.EmulationVersion, strings.Join(paths, " "))
	return document{statusz: &d}, text
}

func (s *Server) flagz() (document, string) {
	flags := s.cfg.Pages.Flags()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		fmt.Fprintf(&text, "%s=%s\n", name, flags[name])
	}
	return document{Flags: flags}, text.String()
}

// page serves a page as text, or as an object in JSON or YAML if the request accepts that by its kind, as in
// "application/json;as=Statusz;v=v1beta1;g=config.k8s.io".
func (s *Server) page(kind string, make func() (document, string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		format, version := negotiate(r.Header.Get("Accept"), kind)
		d, text := make()
		d.Kind, d.APIVersion, d.Name = kind, "config.k8s.io/"+version, component
		var out []byte
		var err error
		switch format {
		case formatText:
			plain(w, fmt.Sprintf("\n%s %s\nWarning: this page is for reading by people, and its format may change.\n\n%s", component, strings.ToLower(kind), text))
			return
		case formatJSON:
			out, err = json.Marshal(d)
		case formatYAML:
			out, err = yaml.Marshal(d)
		default:
			answer(w, notAcceptable("only these media types are accepted: text/plain, and %s or %s with as=%s;v=v1beta1;g=config.k8s.io",
				formatJSON, formatYAML, kind))
			return
		}
		if err != nil {
			answer(w, internal("encode the page: %v", err))
			return
		}
		if version == oldVersion {
			w.Header().Set("Warning", `299 - "v1alpha1 is deprecated; use v1beta1"`)
		}
		w.Header().Set("Content-Type", format)
		_, _ = w.Write(out)
	})
}

// The formats of a page, and the versions of its object.
const (
	formatText, formatJSON, formatYAML = "text/plain", "application/json", "application/yaml"
	newVersion, oldVersion             = "v1beta1", "v1alpha1"
)

// negotiate returns the first format of the Accept header that a page of the kind has, and the version of the object.
// Empty: none.
func negotiate(accept, kind string) (format, version string) {
	if strings.TrimSpace(accept) == "" {
		return formatText, newVersion
	}
	for _, each := range strings.Split(accept, ",") {
		media, params, err := mime.ParseMediaType(strings.TrimSpace(each))
		if err != nil {
			continue
		}
		structured := params["as"] != "" || params["g"] != "" || params["v"] != ""
		switch media {
		case formatText, "text/*", "*/*":
			if !structured {
				return formatText, newVersion
			}
		case formatJSON, formatYAML:
			if params["as"] == kind && params["g"] == "config.k8s.io" && (params["v"] == newVersion || params["v"] == oldVersion) {
				return media, params["v"]
			}
		}
	}
	return "", ""
}
