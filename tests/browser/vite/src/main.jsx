// The starter's own page at `/`, and routes beside it, one of them in a chunk that is loaded when it is visited.
import { lazy, StrictMode, Suspense } from 'react'
import { createRoot } from 'react-dom/client'
import { BrowserRouter, Link, Route, Routes } from 'react-router'
import './index.css'
import App from './App.jsx'

const Cafes = lazy(() => import('./Cafes.jsx'))

createRoot(document.getElementById('root')).render(
  <StrictMode>
    <BrowserRouter>
      <nav>
        <Link to="/">Home</Link> · <Link to="/cafes">Cafes</Link> · <Link to="/cafes/blue-door">Blue Door</Link>
      </nav>
      <Suspense fallback={<p>Loading …</p>}>
        <Routes>
          <Route path="/" element={<App />} />
          <Route path="/cafes/:name?" element={<Cafes />} />
          <Route path="*" element={<h1>Nothing here</h1>} />
        </Routes>
      </Suspense>
    </BrowserRouter>
  </StrictMode>,
)
