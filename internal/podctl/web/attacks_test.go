package web_test

import (
	"net/http"
	"testing"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/podctl/web"
)

// attack is an attack on the page.
type attack struct {
	name string
	// checks are the faults that leave out the checks which stop it. Each one alone stops it.
	checks []failpoint.Name
	// refused is a part of what answers.
	refused string
	// config changes the configuration. Nil: none.
	config func(*testing.T, *web.Config)
	// run attacks, and returns what came of it. success reports whether the attacker got what it wanted.
	run func(*testing.T, *target) (answer string, success bool)
}

// attacks are the attacks. They are refused (TestAttacks), and each succeeds without its checks (TestFaultAttacks).
var attacks = []attack{
	{
		name: "CSRF: a page of another site posts to the API", checks: []failpoint.Name{failpoint.WebSite, failpoint.WebOrigin, failpoint.WebToken},
		refused: "403 site", run: post(map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}),
	},
	{
		name: "a page of another port of this machine posts to the API", checks: []failpoint.Name{failpoint.WebSite, failpoint.WebOrigin, failpoint.WebToken},
		refused: "403 site", run: post(map[string]string{"Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "same-site"}),
	},
	{
		name: "the same by a browser without Sec-Fetch-Site", checks: []failpoint.Name{failpoint.WebSite, failpoint.WebOrigin, failpoint.WebToken},
		refused: "403 site", run: post(map[string]string{"Origin": "http://localhost:8000", "Sec-Fetch-Site": "-"}),
	},
	{
		name:    "DNS rebinding: the attacker's name leads to this page",
		checks:  []failpoint.Name{failpoint.WebHost, failpoint.WebOrigin, failpoint.WebToken},
		refused: "421 host", run: post(map[string]string{"Host": "evil.example", "Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}),
	},
	{
		name: "DNS rebinding reads the page itself", checks: []failpoint.Name{failpoint.WebHost},
		refused: "421 host", run: get("/", map[string]string{"Host": "evil.example", "Sec-Fetch-Site": "none", "Sec-Fetch-Dest": "document"}),
	},
	{
		name: "another user of this machine calls without a token", checks: []failpoint.Name{failpoint.WebToken},
		refused: "401 token", run: post(nil),
	},
	{
		name: "the same with a token that it made up", checks: []failpoint.Name{failpoint.WebToken},
		refused: "401 token", run: post(map[string]string{"Authorization": "Bearer AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}),
	},
	{
		name: "another user of this machine reads the file", checks: []failpoint.Name{failpoint.WebFileMode},
		refused: "permission denied", run: readFile,
	},
	{
		name: "another user of this machine reads the command lines", checks: []failpoint.Name{failpoint.WebOpenAddress},
		refused: "no token in the command line", config: openWith, run: readCommandLine,
	},
	{
		name: "a ticket is used again", checks: []failpoint.Name{failpoint.WebTicketOnce},
		refused: "the link was used before", run: useAgain,
	},
	{
		name: "a ticket is used after a minute", checks: []failpoint.Name{failpoint.WebTicketTime},
		refused: "the link has expired", config: steppingClock, run: useLate,
	},
	{
		name: "a page shows this one in a frame", checks: []failpoint.Name{failpoint.WebDest, failpoint.WebFrameHeaders},
		refused: "403 dest", run: frame,
	},
	{
		name: "a page loads this one's script", checks: []failpoint.Name{failpoint.WebSite},
		refused: "403 site", run: get("/app.js", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "script"}),
	},
	{
		name: "a method that the page doesn't use", checks: []failpoint.Name{failpoint.WebMethod},
		refused: "405 method", run: request(http.MethodPut, "/", map[string]string{"Sec-Fetch-Site": "none"}),
	},
	{
		name:   "a WebSocket of another origin, with a token and a confirmation that it has learned",
		checks: []failpoint.Name{failpoint.WebOrigin}, refused: "403", config: allowExec, run: socket("http://127.0.0.1:8000", true, true),
	},
	{
		name: "a WebSocket without a token", checks: []failpoint.Name{failpoint.WebToken},
		refused: "the session is over", config: allowExec, run: socket("", false, true),
	},
	{
		name: "a command that the user hasn't confirmed", checks: []failpoint.Name{failpoint.WebConfirmation},
		refused: "it isn't confirmed", config: allowExec, run: socket("", true, false),
	},
	{
		name: "a command although exec isn't allowed", checks: []failpoint.Name{failpoint.WebReadOnly},
		refused: "podctl web is read-only", run: socket("", true, true),
	},
	{
		name: "a restart although it isn't allowed", checks: []failpoint.Name{failpoint.WebReadOnly},
		refused: "podctl web is read-only", config: restartable, run: restart,
	},
	{
		name: "a manifest is applied although it isn't allowed", checks: []failpoint.Name{failpoint.WebReadOnly},
		refused: "podctl web is read-only", config: readOnlyApplier, run: apply(1, "wanted", "wanted"),
	},
	{
		name: "a manifest that the user hasn't confirmed", checks: []failpoint.Name{failpoint.WebConfirmation},
		refused: "it isn't confirmed", config: allowApply, run: apply(1, "", "wanted"),
	},
	{
		name: "another manifest than the confirmed one", checks: []failpoint.Name{failpoint.WebConfirmation},
		refused: "it isn't confirmed", config: allowApply, run: apply(1, "confirmed", "wanted"),
	},
	{
		name: "a confirmed manifest is applied twice", checks: []failpoint.Name{failpoint.WebConfirmation},
		refused: "it isn't confirmed", config: allowApply, run: apply(2, "wanted", "wanted"),
	},
	{
		name: "an applied pod is deleted although it isn't allowed", checks: []failpoint.Name{failpoint.WebReadOnly},
		refused: "podctl web is read-only", config: readOnlyApplier, run: remove(1, "applied"),
	},
	{
		name: "a page of another site deletes a pod, with a token and a confirmation that it has learned", checks: []failpoint.Name{failpoint.WebSite, failpoint.WebOrigin},
		refused: "403 site", config: allowApply, run: removeFrom(map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}),
	},
	{
		name: "a deletion that the user hasn't confirmed", checks: []failpoint.Name{failpoint.WebConfirmation},
		refused: "it isn't confirmed", config: allowApply, run: remove(0, "applied"),
	},
	{
		name: "the confirmation of a deletion is used again", checks: []failpoint.Name{failpoint.WebConfirmation},
		refused: "it isn't confirmed", config: allowApply, run: remove(2, "applied"),
	},
	{
		name: "a pod of an administrator's file is deleted", checks: []failpoint.Name{failpoint.WebSource},
		refused: "the pod is from the source file", config: allowApply, run: remove(1, "file"),
	},
	{
		name: "a host of the network connects", checks: []failpoint.Name{failpoint.WebAnyAddress},
		refused: "connection refused", run: connectFromAfar,
	},
	{
		name: "a body of 6 MiB", checks: []failpoint.Name{failpoint.WebBody},
		refused: "413 body", run: largeBody,
	},
	{
		name: "a header of 64 KiB", checks: []failpoint.Name{failpoint.WebHeaderSize},
		refused: "431", run: largeHeader,
	},
	{
		name: "slowloris: a header that never ends", checks: []failpoint.Name{failpoint.WebHeaderTime},
		refused: "closed", run: slowHeader,
	},
	{
		name: "more connections than are allowed keep the page out", checks: []failpoint.Name{failpoint.WebConnections},
		refused: "the oldest connection was closed", run: manyConnections,
	},
}
