package http

import (
	"errors"
	"net/url"
	"strings"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/fault"
)

// Location returns a URL as all callers may see it: without user and password, fragment, and the values of its query.
// The source's origins are named by it.
func Location(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(invalid URL)"
	}
	return locationOf(u)
}

// ObjectOrigin returns the name of the origin of an object at a URL.
func ObjectOrigin(raw string, key manifest.ObjectKey) string {
	return Location(raw) + "#" + key.String()
}

func locationOf(u *url.URL) string {
	shown := *u
	shown.User, shown.Fragment, shown.RawFragment = nil, "", ""
	if u.RawQuery != "" {
		parts := strings.Split(u.RawQuery, "&")
		for i, part := range parts {
			// A word without "=" may be a key, or a value.
			if key, _, ok := strings.Cut(part, "="); ok {
				parts[i] = key + "=" + fault.Hidden
			} else {
				parts[i] = fault.Hidden
			}
		}
		shown.RawQuery = strings.Join(parts, "&")
	}
	return shown.String()
}

// parseURL returns the URL to request, without the fragment. Its errors don't quote it, as any part of a malformed
// URL may be the password.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return nil, errors.New("no URL")
	case err != nil:
		return nil, errors.New("the URL isn't valid (it isn't shown, as it may have a password)")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the URL has to begin with http:// or https://")
	case u.Hostname() == "":
		return nil, errors.New("the URL has no host")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// sameHost reports whether what is for the host of one URL may be sent to that of another: to the same port, or to
// https in place of http, both with their usual ports.
func sameHost(own, other *url.URL) bool {
	if !strings.EqualFold(own.Hostname(), other.Hostname()) {
		return false
	}
	if own.Scheme == other.Scheme {
		return port(own) == port(other)
	}
	return own.Scheme == "http" && other.Scheme == "https" && port(own) == "80" && port(other) == "443"
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}
