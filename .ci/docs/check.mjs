// check.mjs DIR BASE: fails if a page of the built site in DIR, which is served under BASE, has a link within the site, or an image, a script
// or a style, that leads nowhere: to no file, or to no section of its page. Links to other sites are not followed.
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join, posix } from 'node:path'

const [dir, base] = process.argv.slice(2)
const files = readdirSync(dir, { recursive: true }).map((name) => name.replaceAll('\\', '/'))
const pages = new Map(files.filter((name) => name.endsWith('.html')).map((name) => [name, readFileSync(join(dir, name), 'utf8')]))
const ids = new Map([...pages].map(([name, html]) => [name, new Set([...html.matchAll(/\sid="([^"]*)"/g)].map(([, id]) => id))]))

let links = 0
const broken = []
for (const [page, html] of pages) {
  for (const [, link] of html.matchAll(/<(?:a|img|link|script|source)\s(?:[^>]*?\s)?(?:href|src)="([^"]*)"/g)) {
    const url = new URL(link.replaceAll('&amp;', '&'), 'http://site' + posix.join(base, page))
    if (url.host !== 'site') continue
    links++
    const path = decodeURIComponent(url.pathname)
    const file = path.endsWith('/') ? path + 'index.html' : path
    const name = file.slice(base.length)
    const id = decodeURIComponent(url.hash.slice(1))
    if (!file.startsWith(base) || !existsSync(join(dir, name))) {
      broken.push(`${page}: ${link}: no such file`)
    } else if (id && !ids.get(name)?.has(id)) {
      broken.push(`${page}: ${link}: no such section`)
    }
  }
}

console.log(`check: ${links} links and images of ${pages.size} pages`)
if (links === 0 || broken.length > 0) {
  console.error(broken.join('\n') || `no links in ${dir}`)
  process.exit(1)
}
