// Package webtest has what the tests of `podctl web` and of the packages below it share: a podconfigd with a real merge and
// history, a podexecd that does as it is told, and a page without a browser.
//
// Only tests import it. Its servers end with their test.
package webtest
