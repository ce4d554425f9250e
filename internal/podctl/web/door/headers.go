package door

import (
	"net/http"
	"strings"

	"github.com/podstream/podstream/internal/failpoint"
)

// policy returns the content security policy of the page. Nothing is loaded from elsewhere, no script is in the page's
// text, and no text becomes HTML or a script.
func policy(host, report string) string {
	parts := []string{
		"default-src 'none'",
		"script-src 'self'",
		"style-src 'self'",
		"img-src 'self'",
		"font-src 'self'",
		// 'self' doesn't include WebSockets in every browser.
		"connect-src 'self' ws://" + host,
		"base-uri 'none'",
		"form-action 'none'",
		"require-trusted-types-for 'script'",
		"trusted-types 'none'",
		// Beside report-to, browsers would ignore it, and send their reports later.
		"report-uri " + report,
	}
	if !failpoint.Active(failpoint.WebFrameHeaders) {
		parts = append(parts, "frame-ancestors 'none'")
	}
	return strings.Join(parts, "; ")
}

// setHeaders sets the headers that every response has.
func (g *Guard) setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy(g.cfg.Host, g.cfg.Paths.Report))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", sameOrigin)
	h.Set("Cross-Origin-Embedder-Policy", "require-corp")
	h.Set("Cross-Origin-Resource-Policy", sameOrigin)
	h.Set("Origin-Agent-Cluster", "?1")
	h.Set("Permissions-Policy", "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("Cache-Control", "no-store")
	if !failpoint.Active(failpoint.WebFrameHeaders) {
		h.Set("X-Frame-Options", "DENY")
	}
}
